"""Synthetic sounds: voiced and unvoiced stretches like those of speech, in WAV or FLAC files."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import numpy as np
import numpy.typing as npt

from skymark.suites.loading.dataset.canonical import Dataset, write_dataset

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
