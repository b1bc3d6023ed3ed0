"""Sounds: WAV and FLAC files decoded, stretches of them, log-mel spectrograms.

Frames of 25 ms every 10 ms and 80 bands, as speech models take them (Radford et al., "Robust
speech recognition via large-scale weak supervision", 2023).
"""

from __future__ import annotations

import io
import wave
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from skymark.model.errors import DataError
from skymark.suites.loading.transforms.crops import window_start
from skymark.suites.loading.work import Stage, on

SAMPLE_RATE = 16_000
FRAME = 400
"""Samples per frame: 25 ms."""
HOP = 160
"""Samples from frame to frame: 10 ms."""
BANDS = 80
FLOOR = 1e-10
"""Power below which the logarithm is cut off, as in Whisper."""

WRONG_BANDS = (40, 64, 128)
"""Other usual numbers of mel bands."""

Floats = npt.NDArray[Any]
"""float32; float64 where the oracle computes in double precision."""
Scale: TypeAlias = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]


def decode_wav(data: Any) -> Floats:
    """Decode a WAV file (PCM, 16 bits) to one channel, float32 ``[n]`` in [-1, 1).

    Args:
        data: the file's bytes, or uint8 ``[length]``; channels are averaged.

    Raises:
        DataError: the bytes are no such file, or are not of `SAMPLE_RATE`.
    """
    try:
        with wave.open(io.BytesIO(bytes(data))) as file:
            layout = (file.getframerate(), file.getsampwidth())
            channels = file.getnchannels()
            promised = file.getnframes()
            frames = file.readframes(promised)
    except (EOFError, wave.Error, RuntimeError) as error:
        raise DataError(f"the sound is no PCM WAV file ({error}); convert it to one") from error
    if layout != (SAMPLE_RATE, 2):
        raise DataError(
            f"the sound has {layout[0]} samples of {8 * layout[1]} bits per second, where "
            f"{SAMPLE_RATE} of 16 are needed; convert it"
        )
    if len(frames) != promised * channels * 2:
        raise DataError("the sound is truncated; copy the file again or remove it")
    samples = np.frombuffer(frames, "<i2").astype(np.float32) / np.float32(32768)
    if channels > 1:
        samples = samples.reshape(-1, channels).mean(axis=1, dtype=np.float32)
    return samples


def decode_flac(data: Any) -> Floats:
    """Decode a FLAC file (16 bits, one channel) by FFmpeg to float32 ``[n]`` in [-1, 1).

    Args:
        data: the file's bytes, or uint8 ``[length]``.

    Raises:
        DataError: the bytes are no such file, end too early, or are not of `SAMPLE_RATE`.
    """
    import av

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
            f"the sound is no whole FLAC file ({error.strerror}); copy it again or "
            "convert it to one"
        ) from error
    if layout != (SAMPLE_RATE, "s16", 1):
        raise DataError(
            f"the sound has {layout[2]} channels of {layout[0]} samples ({layout[1]}) per second; "
            f"convert it to a FLAC file with one channel of {SAMPLE_RATE} (s16)"
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


def is_usual_wav(data: bytes) -> bool:
    """Whether a file is a WAV file (PCM, 16 bits, `SAMPLE_RATE`) that `decode_wav` reads.

    Python reads only plain headers in all of its versions, so the header must be one.
    """
    plain = data[:4] == b"RIFF" and data[12:16] == b"fmt " and data[20:22] == b"\1\0"
    if not plain or is_open_ended(data):
        return False
    try:
        with wave.open(io.BytesIO(data)) as file:
            return (file.getframerate(), file.getsampwidth()) == (SAMPLE_RATE, 2)
    except (EOFError, wave.Error, RuntimeError):
        return False


def samples_of_wav(data: bytes) -> tuple[int, int]:
    """Return where the samples of a WAV file begin, and their declared size in bytes.

    -1 and 0 where the file has no samples near its beginning.
    """
    at = data.find(b"data", 12, 4096)
    return (at + 8, int.from_bytes(data[at + 4 : at + 8], "little")) if at > 0 else (-1, 0)


def is_open_ended(data: bytes) -> bool:
    """Whether a WAV file tells no size of its samples, as programs write to a pipe."""
    begin, size = samples_of_wav(data)
    return begin > 0 and (size >= 0xFFFFFF00 or (size == 0 and len(data) > begin))


def fit(samples: Floats, length: int) -> Floats:
    """Cut samples off at `length` or pad them with zeros behind, ``[length]`` of the same type."""
    fitted = np.zeros(length, samples.dtype)
    fitted[: len(samples)] = samples[:length]
    return fitted


def fit_behind(samples: Floats, length: int) -> Floats:
    """Pad with zeros in front instead (a mistake the oracle recognises)."""
    return fit(samples[::-1], length)[::-1]


def power_spectrogram(samples: Floats) -> Floats:
    """Return the power of each frame's spectrum under a periodic Hann window.

    Args:
        samples: float32 ``[n]``.

    Returns:
        of the same type, ``[1 + (n - FRAME) // HOP, FRAME // 2 + 1]``; frames lie wholly within
        the sound.
    """
    frames = np.lib.stride_tricks.sliding_window_view(samples, FRAME)[::HOP]
    spectrum = np.fft.rfft(frames * _window(samples.dtype), axis=1)
    power: Floats = (spectrum.real**2 + spectrum.imag**2).astype(samples.dtype)
    return power


def mel_bands(power: Floats, bands: int = BANDS) -> Floats:
    """Sum a power spectrogram into mel bands, float32 ``[bands, frames]``.

    Fewer than `BANDS`, over the same range, are a mistake that the oracle recognises.
    """
    return _summed(power, slaney_mel, slaney_hertz, bands)


def htk_bands(power: Floats) -> Floats:
    """Sum into bands of the HTK scale instead (a mistake the oracle recognises)."""
    return _summed(power, htk_mel, htk_hertz)


def _summed(power: Floats, to_mel: Scale, to_hertz: Scale, bands: int = BANDS) -> Floats:
    """Apply the non-zero parts of the filters.

    It avoids matrix products, because their threads would compete with other worker processes.
    """
    bins, weights, starts = _nonzero(to_mel, to_hertz, power.dtype, bands)
    summed: Floats = np.add.reduceat(power.T[bins] * weights, starts, axis=0)
    return summed


def log_power(bands: Floats) -> Floats:
    """Return the decimal logarithm of the power, cut off at `FLOOR`."""
    logarithms: Floats = np.log10(np.maximum(bands, bands.dtype.type(FLOOR)))
    return logarithms


def slaney_mel(hertz: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return mels: linear below 1 kHz, logarithmic above (Slaney, "Auditory toolbox", 1998)."""
    above = 15 + 27 * np.log(np.maximum(hertz, 1000) / 1000) / np.log(6.4)
    return np.where(hertz < 1000, 3 * hertz / 200, above)


def slaney_hertz(mels: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Undo `slaney_mel`."""
    above = 1000 * np.exp((np.maximum(mels, 15) - 15) * np.log(6.4) / 27)
    return np.where(mels < 15, 200 * mels / 3, above)


def htk_mel(hertz: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return mels by the formula of the HTK book (Young et al., 2006)."""
    return 2595 * np.log10(1 + hertz / 700)


def htk_hertz(mels: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Undo `htk_mel`."""
    return 700 * (10 ** (mels / 2595) - 1)


@cache
def filters(to_mel: Scale, to_hertz: Scale, bands: int = BANDS) -> Floats:
    """Return triangular filters of equal area, evenly spaced in mels from 0 to 8 kHz.

    Returns:
        float64 ``[FRAME // 2 + 1, bands]``.
    """
    limits = to_mel(np.array([0.0, SAMPLE_RATE / 2]))
    edges = to_hertz(np.linspace(limits[0], limits[1], bands + 2))
    frequency = np.fft.rfftfreq(FRAME, 1 / SAMPLE_RATE)[:, None]
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    rising = (frequency - low) / (centre - low)
    falling = (high - frequency) / (high - centre)
    triangles = np.maximum(0, np.minimum(rising, falling))
    return triangles * 2 / (high - low)


@cache
def _nonzero(
    to_mel: Scale, to_hertz: Scale, dtype: np.dtype[Any], bands: int
) -> tuple[npt.NDArray[np.intp], Floats, npt.NDArray[np.intp]]:
    """Return the bins of all bands one after another, their weights, and where bands start."""
    triangles = filters(to_mel, to_hertz, bands)
    # A band too narrow to hold a bin keeps one of weight 0.
    used = [np.flatnonzero(band) if band.any() else np.zeros(1, np.intp) for band in triangles.T]
    bins = np.concatenate(used)
    band_of_bin = np.repeat(np.arange(bands), [len(band) for band in used])
    starts = np.flatnonzero(np.diff(band_of_bin, prepend=-1))
    return bins, triangles[bins, band_of_bin][:, None].astype(dtype), starts


@cache
def _window(dtype: np.dtype[Any]) -> Floats:
    return np.hanning(FRAME + 1)[:-1].astype(dtype)


def log_mel_stages(field: str) -> tuple[Stage, ...]:
    """Return the stages from samples to decibels / 10: spectrogram, mel bands, logarithm.

    Args:
        field: holds the samples ``[n]``, and the bands ``[BANDS, frames]`` afterwards.
    """
    natural = on(field, lambda bands: log_power(bands) * np.float32(np.log(10)))
    fewer = {
        f"{count} bands, not {BANDS}": on(field, partial(mel_bands, bands=count))
        for count in WRONG_BANDS
    }
    return (
        Stage("spectrogram", on(field, power_spectrogram)),
        Stage(
            "mel",
            on(field, mel_bands),
            {"the HTK scale, not Slaney's": on(field, htk_bands), **fewer},
        ),
        Stage(
            "log",
            on(field, log_power),
            {"the natural logarithm, not the decimal one": natural},
        ),
    )
