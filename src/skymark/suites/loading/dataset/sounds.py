"""Synthetic sounds: voiced and unvoiced stretches like those of speech, in WAV files."""

from __future__ import annotations

import io
import wave

import numpy as np
import numpy.typing as npt

SAMPLE_RATE = 16_000
"""Samples per second, usual for speech."""
SYLLABLE_S = 0.2
"""Mean length of a stretch; speech has about five syllables per second."""


def speech_like(random: np.random.Generator, seconds: float) -> npt.NDArray[np.uint8]:
    """Make a WAV file (PCM, 16 bits, mono) of harmonic tones and hiss with pauses between.

    Returns:
        uint8 ``[length]``.
    """
    samples = int(seconds * SAMPLE_RATE)
    signal = np.zeros(samples, np.float32)
    start = 0
    while start < samples:
        stop = min(samples, start + int(random.uniform(0.5, 1.5) * SYLLABLE_S * SAMPLE_RATE))
        signal[start:stop] = syllable(random, stop - start)
        start = stop
    return wav_bytes(np.rint(signal * 32767 / 4).clip(-32768, 32767).astype(np.int16))


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
