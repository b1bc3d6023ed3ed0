"""Synthetic sounds: voiced and unvoiced stretches as in speech, in WAV or FLAC files."""

from __future__ import annotations

import io
import wave
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from skymark.model.errors import DataError
from skymark.suites.loading.dataset.canonical import Dataset, write_dataset
from skymark.suites.loading.dataset.text import PAIRS_SEED, captions

GENERATOR_SEED = 20_251_124

SAMPLE_RATE = 16_000
"""Samples per second, usual for speech."""
SYLLABLE_S = 0.2
"""Mean length of a stretch; speech has about five syllables per second."""


def speech_like(random: np.random.Generator, seconds: float) -> npt.NDArray[np.uint8]:
    """Make a WAV file (PCM, 16 bits, mono) of `speech`, uint8 ``[length]``."""
    return wav_bytes(speech(random, seconds))


def speech(random: np.random.Generator, seconds: float) -> npt.NDArray[np.int16]:
    """Make harmonic tones and hiss with pauses between, int16 ``[samples]``."""
    samples = int(seconds * SAMPLE_RATE)
    signal = np.zeros(samples, np.float32)
    start = 0
    while start < samples:
        stop = min(samples, start + int(random.uniform(0.5, 1.5) * SYLLABLE_S * SAMPLE_RATE))
        signal[start:stop] = syllable(random, stop - start)
        start = stop
    return np.rint(signal * 32767 / 4).clip(-32768, 32767).astype(np.int16)


def syllable(random: np.random.Generator, samples: int) -> npt.NDArray[np.float32]:
    """Make one stretch, float32 ``[samples]`` within about ±2: voiced, hiss or silence."""
    kind = random.random()
    if kind < 0.15:
        return np.zeros(samples, np.float32)
    envelope = np.hanning(samples).astype(np.float32)
    if kind < 0.35:
        return envelope * 0.3 * random.standard_normal(samples, np.float32)
    pitch = random.uniform(90, 250)
    time = np.arange(samples, dtype=np.float32) / SAMPLE_RATE
    harmonics = np.arange(1, 13, dtype=np.float32)
    phases = 2 * np.pi * (pitch * harmonics[:, None] * time + random.random((12, 1), np.float32))
    voiced: npt.NDArray[np.float32] = (np.sin(phases) / harmonics[:, None]).sum(axis=0)
    return envelope * voiced.astype(np.float32)


def wav_bytes(
    samples: npt.NDArray[np.int16], sample_rate: int = SAMPLE_RATE
) -> npt.NDArray[np.uint8]:
    """Encode mono samples int16 ``[n]`` as a WAV file, uint8 ``[length]``."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return np.frombuffer(buffer.getvalue(), np.uint8)


def flac_bytes(
    samples: npt.NDArray[np.int16], sample_rate: int = SAMPLE_RATE
) -> npt.NDArray[np.uint8]:
    """Encode mono samples int16 ``[n]`` as a FLAC file, uint8 ``[length]``."""
    import av

    buffer = io.BytesIO()
    with av.open(buffer, "w", format="flac") as file:
        sound = file.add_stream("flac", rate=sample_rate, layout="mono", format="s16")
        frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
        frame.sample_rate = sample_rate
        file.mux(sound.encode(frame))
        file.mux(sound.encode(None))
    return np.frombuffer(buffer.getvalue(), np.uint8)


SOUND_FORMATS = {
    b"RIFF": "wav",
    b"fLaC": "flac",
    b"OggS": "ogg",
    b"FORM": "aiff",
    b"ID3": "mp3",
    b"\xff\xfb": "mp3",
    b"\xff\xf3": "mp3",
    b"\xff\xf2": "mp3",
    b"\xff\xfa": "mp3",
    b"\xff\xf1": "aac",
    b"\xff\xf9": "aac",
}
"""FFmpeg's names of the formats that sounds are read from, by the beginning of a file. Others,
such as lists of files to play, are never opened."""
SHORT_S = 0.1
"""By which a sound may end before its header says, since encoders pad the last frame."""


def decoded_sound(data: bytes) -> npt.NDArray[np.int16]:
    """Decode a sound of any usual format and rate to one channel of 16 kHz, int16 ``[n]``.

    Raises:
        DataError: it is of no such format, or ends early.
    """
    import av

    begins = (name for start, name in SOUND_FORMATS.items() if data.startswith(start))
    format = "mp4" if data[4:8] == b"ftyp" else next(begins, None)
    if format is None:
        raise DataError(
            f"the sound is of no format that skymark reads: it begins with {data[:12]!r}; convert "
            "it to WAV or FLAC"
        )
    try:
        with av.open(io.BytesIO(data), "r", format=format) as file:
            sound = next(iter(file.streams.audio), None)
            if sound is None:
                raise DataError("the file has no sound; remove it")
            sound.codec_context.thread_count = 1
            promised_s = _promised_s(data, format, sound)
            decoded_s, pieces = 0.0, []
            resampler = av.AudioResampler("s16", "mono", SAMPLE_RATE)
            for frame in file.decode(sound):
                decoded_s += frame.samples / frame.sample_rate
                pieces += [piece.to_ndarray()[0] for piece in resampler.resample(frame)]
            pieces += [piece.to_ndarray()[0] for piece in resampler.resample(None)]
    except av.FFmpegError as error:
        raise DataError(
            f"the sound is no whole {format.upper()} file ({error.strerror}); copy it again "
            "or remove it"
        ) from error
    if decoded_s < promised_s - SHORT_S or not pieces or _is_cut(data, format):
        raise DataError(
            f"the sound ends after {decoded_s:.2f} s, before its {format.upper()} file should; "
            "copy it again or remove it"
        )
    return np.concatenate(pieces)


def _promised_s(data: bytes, format: str, sound: Any) -> float:
    """Return the length in seconds that a header promises; 0 where it promises none."""
    from skymark.suites.loading.transforms.audio import is_open_ended

    if format == "wav" and is_open_ended(data):
        return 0.0
    if format == "mp3" and not any(mark in data[:4096] for mark in (b"Xing", b"Info", b"VBRI")):
        return 0.0
    if format == "aac" or sound.duration is None or sound.time_base is None:
        return 0.0
    return float(sound.duration * sound.time_base)


def _is_cut(data: bytes, format: str) -> bool:
    """Whether a file ends in the middle by marks that need no decoding.

    The last page of an Ogg stream says so (RFC 3533, 6); a WAV file has the size of its samples.
    """
    if format == "ogg":
        last = data.rfind(b"OggS")
        return not data[last + 5] & 4
    from skymark.suites.loading.transforms.audio import is_open_ended, samples_of_wav

    begin, size = samples_of_wav(data)
    return format == "wav" and begin > 0 and not is_open_ended(data) and size > len(data) - begin


def is_usual_flac(data: bytes) -> bool:
    """Whether a file is FLAC of 16 bits, one channel and `SAMPLE_RATE`, and tells its length."""
    from skymark.suites.loading.transforms.audio import decode_flac

    try:
        decode_flac(data)
    except DataError:
        return False
    return data[:4] == b"fLaC"


def write_compressed_sounds(
    directory: Path, elements: int, seconds: float, classes: int
) -> Dataset:
    """Write columns ``flac``, ragged uint8, and ``label`` int64.

    A sound lasts from half of `seconds` to all of it.
    """
    random = np.random.Generator(np.random.PCG64(GENERATOR_SEED))
    labels = random.integers(classes, size=elements)
    lengths = random.uniform(0.5 * seconds, seconds, elements)
    return write_dataset(
        directory,
        "compressed sounds",
        {
            "flac": (flac_bytes(speech(random, float(length))) for length in lengths),
            "label": labels,
        },
        {"flac": "flac"},
    )


def write_audio_text(directory: Path, elements: int, seconds: float) -> Dataset:
    """Write columns ``wav`` and ``transcript``, both ragged uint8.

    A sound lasts from half of `seconds` to all of it.
    """
    random = np.random.Generator(np.random.PCG64(PAIRS_SEED))
    lengths = random.uniform(0.5 * seconds, seconds, elements)
    return write_dataset(
        directory,
        "sounds with transcripts",
        {
            "wav": [speech_like(random, float(length)) for length in lengths],
            "transcript": captions(random, elements),
        },
        {"wav": "wav", "transcript": "utf8"},
    )
