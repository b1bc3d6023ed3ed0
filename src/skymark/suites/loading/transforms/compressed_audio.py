"""Compressed sounds: FLAC files decoded by FFmpeg, and stretches of them."""

from __future__ import annotations

import io
from typing import Any

import av
import numpy as np

from skymark.model.errors import DataError
from skymark.suites.loading.transforms.audio import HOP, SAMPLE_RATE, Floats, fit
from skymark.suites.loading.transforms.random_crop import window_start


def decode_flac(data: Any) -> Floats:
    """Decode a FLAC file (16 bits, one channel) to float32 ``[n]`` in [-1, 1).

    Args:
        data: the file's bytes, or uint8 ``[length]``.

    Raises:
        DataError: the bytes are no such file, end too early, or are not of `SAMPLE_RATE`.
    """
    try:
        with av.open(io.BytesIO(memoryview(data)), "r", format="flac") as file:
            sound = file.streams.audio[0]
            layout = (sound.rate, sound.format and sound.format.name, sound.channels)
            promised = sound.duration
            # Worker processes decode side by side, one thread each.
            sound.codec_context.thread_count = 1
            pieces = [frame.to_ndarray()[0] for frame in file.decode(sound)]
    except av.FFmpegError as error:
        raise DataError(
            f"the sound is no whole FLAC file ({error}); copy it again or convert it to one"
        ) from error
    if layout != (SAMPLE_RATE, "s16", 1):
        raise DataError(
            f"the sound has {layout[2]} channels of {layout[0]} samples ({layout[1]}) per second, "
            f"where one of {SAMPLE_RATE} (s16) is needed; convert it to such a FLAC file"
        )
    samples = np.concatenate(pieces) if pieces else np.zeros(0, np.int16)
    if len(samples) != promised:
        raise DataError("the sound is no whole FLAC file but ends early; copy it again")
    return samples.astype(np.float32) / np.float32(32768)


def unscaled_flac(data: Any) -> Floats:
    """Decode without scaling 16 bits to [-1, 1) (a mistake the oracle recognises)."""
    return decode_flac(data) * np.float32(32768)


def stretch(samples: Floats, share: float, length: int, later: int = 0) -> Floats:
    """Return the drawn stretch of a sound, `length` samples, with silence behind if it ends first.

    Args:
        samples: ``[n]``.
        share: of the places where it may begin.
        length: samples of the stretch.
        later: samples by which it begins later than drawn, where it can.
    """
    last = max(0, len(samples) - length)
    begin = window_start(share, len(samples), length) + later
    return fit(samples[min(max(0, begin), last) :], length)


def stretch_from_hop(samples: Floats, share: float, length: int) -> Floats:
    """Begin at a whole column of the sound's spectrogram (a mistake the oracle recognises)."""
    return stretch(samples, share, length, -(window_start(share, len(samples), length) % HOP))
