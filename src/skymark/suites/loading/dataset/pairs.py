"""Synthetic pairs: photographs with captions, speech-like sounds with transcripts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from skymark.suites.loading.dataset.canonical import Dataset, write_dataset
from skymark.suites.loading.dataset.captions import captions
from skymark.suites.loading.dataset.images import photographs
from skymark.suites.loading.dataset.sounds import speech_like

GENERATOR_SEED = 20_240_619


def write_image_text(directory: Path, elements: int, height: int, width: int) -> Dataset:
    """Write columns ``jpeg`` and ``caption``, both ragged uint8, the caption in UTF-8."""
    random = np.random.Generator(np.random.PCG64(GENERATOR_SEED))
    files, _, _ = photographs(random, elements, height, width)
    return write_dataset(
        directory,
        "photographs with captions",
        {"jpeg": files, "caption": captions(random, elements)},
        {"jpeg": "jpeg", "caption": "utf8"},
    )


def write_audio_text(directory: Path, elements: int, seconds: float) -> Dataset:
    """Write columns ``wav`` and ``transcript``, both ragged uint8.

    A sound lasts from half of `seconds` to all of it.
    """
    random = np.random.Generator(np.random.PCG64(GENERATOR_SEED))
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
