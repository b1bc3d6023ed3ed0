"""Synthetic text as token ids: Zipf-distributed tokens in documents of log-normal length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from skymark.suites.loading.dataset.canonical import Dataset, write_dataset
from skymark.suites.loading.dataset.packing import plan_blocks

GENERATOR_SEED = 20_240_611
VOCABULARY = 50_257
"""Tokens of GPT-2 (Radford et al., 2019); the last one ends a text."""
END_OF_TEXT = VOCABULARY - 1
START_OF_TEXT = VOCABULARY
"""One more than GPT-2 has, so that a start can be told from an end."""

Tokens = npt.NDArray[np.uint16]


def zipf_tokens(random: np.random.Generator, count: int) -> Tokens:
    """Draw token ids below `END_OF_TEXT`, id k with probability ∝ 1 / (k + 2.7).

    The law is Zipf's in Mandelbrot's form with the customary offset (Mandelbrot, "An
    informational theory of the statistical structure of language", 1953).

    Returns:
        uint16 ``[count]``.
    """
    drawn = np.searchsorted(_zipf_distribution(), random.random(count), side="right")
    return np.minimum(drawn, END_OF_TEXT - 1).astype(np.uint16)


@cache
def _zipf_distribution() -> npt.NDArray[np.float64]:
    weights = 1 / (np.arange(END_OF_TEXT) + 2.7)
    return np.cumsum(weights / weights.sum())


def document_lengths(
    random: np.random.Generator, count: int, median: float, spread: float = 1.0
) -> npt.NDArray[np.int64]:
    """Draw `count` log-normal document lengths in tokens, int64, each at least 1."""
    return np.maximum(1, np.exp(random.normal(np.log(median), spread, count))).astype(np.int64)


def write_blocks(directory: Path, elements: int, block_length: int) -> Dataset:
    """Write `elements` packed blocks of synthetic documents; see `write_documents`."""
    random = np.random.Generator(np.random.PCG64(GENERATOR_SEED))

    def documents() -> Iterator[Tokens]:
        while True:
            for length in document_lengths(random, 1024, median=block_length / 3).tolist():
                yield zipf_tokens(random, length)

    return write_documents(directory, "packed text", documents(), elements, block_length)


def enough(documents: Iterable[Tokens], elements: int, block_length: int) -> Iterator[Tokens]:
    """Take documents until fewer than `elements` blocks could not hold them."""
    left = elements * block_length
    for document in documents:
        if left <= 0:
            return
        left -= len(document) + 1 if len(document) else 0
        yield document


def count_blocks(documents: Iterable[Tokens], elements: int, block_length: int) -> int:
    """Return how many blocks documents fill, or `elements` if these are more."""
    lengths = [len(document) for document in enough(documents, elements, block_length)]
    return min(elements, len(plan_blocks(np.array(lengths, np.int64), block_length)))


def write_documents(
    directory: Path, name: str, documents: Iterable[Tokens], elements: int, block_length: int
) -> Dataset:
    """Write `elements` packed blocks of documents.

    As many documents are taken as fill them; the blocks that packing opens beyond `elements` are
    left out. The order of the blocks is shuffled, because packing puts the longest documents
    first.

    Args:
        directory: where to.
        name: what the documents are, for people.
        documents: token ids uint16 ``[n]`` of each.
        elements: blocks to write.
        block_length: tokens of a block, closing tokens included (L + 1).

    Returns:
        Columns ``tokens`` uint16 ``[n]`` and ``lengths`` int32 ``[documents]``, both ragged.
    """
    taken = list(enough(documents, elements, block_length))
    plan = plan_blocks(np.array([len(document) for document in taken], np.int64), block_length)
    order = np.random.Generator(np.random.PCG64(GENERATOR_SEED)).permutation(len(plan))
    blocks = [plan[place] for place in order[:elements].tolist()]
    tokens = (
        np.concatenate([taken[piece.document][piece.start : piece.stop] for piece in pieces])
        for pieces in blocks
    )
    lengths = [
        np.array([piece.stop - piece.start for piece in pieces], np.int32) for pieces in blocks
    ]
    return write_dataset(directory, name, {"tokens": tokens, "lengths": lengths})


def write_sequences(directory: Path, elements: int, longest: int, classes: int) -> Dataset:
    """Write labelled texts of log-normal length, a few of them longer than `longest`.

    Returns:
        Columns ``tokens`` uint16 ``[n]``, ragged, and ``label`` int64.
    """
    random = np.random.Generator(np.random.PCG64(GENERATOR_SEED))
    lengths = document_lengths(random, elements, median=longest / 5, spread=0.8)
    tokens = [zipf_tokens(random, length) for length in lengths.tolist()]
    label = random.integers(classes, size=elements)
    return write_dataset(directory, "texts", {"tokens": tokens, "label": label})
