"""Synthetic text as token ids: Zipf-distributed tokens in documents of log-normal length."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from skymark.loading.dataset.canonical import Dataset, write_dataset
from skymark.loading.dataset.packing import Piece, plan_blocks

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
    """Write `elements` packed blocks of synthetic documents.

    Enough documents are drawn that fewer blocks could not hold them; the blocks that packing
    opens beyond `elements` are left out. The order of the blocks is shuffled, because packing
    puts the longest documents first.

    Args:
        directory: where to.
        elements: blocks to write.
        block_length: tokens of a block, closing tokens included (L + 1).

    Returns:
        Columns ``tokens`` uint16 ``[n]`` and ``lengths`` int32 ``[documents]``, both ragged.
    """
    random = np.random.Generator(np.random.PCG64(GENERATOR_SEED))
    wanted = elements * block_length
    lengths = document_lengths(random, 1 + 4 * elements, median=block_length / 3)
    while (lengths + 1).sum() < wanted:
        more = document_lengths(random, elements, median=block_length / 3)
        lengths = np.concatenate([lengths, more])
    lengths = lengths[: int(np.searchsorted(np.cumsum(lengths + 1), wanted)) + 1]
    plan = plan_blocks(lengths, block_length)
    order = random.permutation(len(plan))[:elements].tolist()
    documents = [zipf_tokens(random, length) for length in lengths.tolist()]
    return write_planned(directory, "packed text", documents, [plan[place] for place in order])


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


def write_planned(
    directory: Path, name: str, documents: Sequence[Tokens], plan: Sequence[Sequence[Piece]]
) -> Dataset:
    """Write blocks as planned: ``tokens`` uint16 and ``lengths`` int32, both ragged."""
    tokens = [
        np.concatenate([documents[piece.document][piece.start : piece.stop] for piece in pieces])
        for pieces in plan
    ]
    lengths = [
        np.array([piece.stop - piece.start for piece in pieces], np.int32) for pieces in plan
    ]
    return write_dataset(directory, name, {"tokens": tokens, "lengths": lengths})
