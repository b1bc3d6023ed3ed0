"""Synthetic documents: sentences of common words, with a name now and then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from skymark.suites.loading.dataset.canonical import Dataset, write_dataset
from skymark.suites.loading.dataset.captions import WORDS
from skymark.suites.loading.dataset.text import GENERATOR_SEED, document_lengths

NAMES = 20_000
"""Names that occur, so that a tokenizer cannot know every word by heart."""

SHARE_OF_NAMES = 0.04
SENTENCE = 14
"""Words of a sentence."""


def write_texts(directory: Path, elements: int, median_words: int) -> Dataset:
    """Write documents of log-normal length, whose words follow Zipf's law.

    Args:
        directory: where to.
        elements: how many.
        median_words: of a document; one in forty has more than seven times as many.

    Returns:
        Column ``document``, ragged uint8: UTF-8.
    """
    random = np.random.Generator(np.random.PCG64(GENERATOR_SEED))
    lengths = document_lengths(random, elements, median_words)
    texts = _texts(random, lengths)
    return write_dataset(directory, "documents", {"document": texts}, {"document": "utf8"})


def _texts(
    random: np.random.Generator, lengths: npt.NDArray[np.int64]
) -> Iterator[npt.NDArray[np.uint8]]:
    words = np.array([*WORDS, *_names(random)], object)
    weights = 1 / (np.arange(len(WORDS)) + 2.7)
    cumulated = np.cumsum(weights / weights.sum())
    for length in lengths.tolist():
        drawn = np.minimum(np.searchsorted(cumulated, random.random(length)), len(WORDS) - 1)
        is_name = random.random(length) < SHARE_OF_NAMES
        drawn[is_name] = random.integers(len(WORDS), len(words), is_name.sum())
        spelled = words[drawn].tolist()
        sentences = (spelled[at : at + SENTENCE] for at in range(0, length, SENTENCE))
        joined = " ".join(f"{' '.join(one).capitalize()}." for one in sentences)
        yield np.frombuffer(joined.encode(), np.uint8)


def _names(random: np.random.Generator) -> list[str]:
    """Return made-up names of two to four syllables."""
    consonants, vowels = list("bcdfghjklmnprstvwz"), list("aeiou")
    parts = np.array([first + second for first in consonants for second in vowels])
    return [
        "".join(random.choice(parts, size)).capitalize()
        for size in random.integers(2, 5, NAMES).tolist()
    ]
