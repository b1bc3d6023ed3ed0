"""Synthetic text: token ids, documents, captions, and the plan of documents in blocks.

Ding et al., "Fewer truncations improve language modeling" (ICML 2024): documents longer than a
block are cut into pieces. Pieces, longest first, go into the fullest block with enough room, so
that no document is cut to save padding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skymark.suites.loading.dataset.canonical import Dataset, write_dataset


class Piece(NamedTuple):
    """Tokens ``start:stop`` of one document."""

    document: int
    start: int
    stop: int


def pieces_of(lengths: npt.NDArray[np.int64], longest: int) -> list[Piece]:
    """Cut documents into pieces of at most `longest` tokens; empty documents give none.

    Args:
        lengths: int64 ``[documents]``.
        longest: tokens per piece.
    """
    return [
        Piece(document, start, min(start + longest, length))
        for document, length in enumerate(lengths.tolist())
        for start in range(0, length, longest)
    ]


def best_fit(sizes: npt.NDArray[np.int64], capacity: int) -> list[list[int]]:
    """Pack items into bins by best-fit decreasing.

    A bit set of the open bins' remaining room finds the fullest bin with enough room, so that a
    document costs about a microsecond for any number of bins.

    Args:
        sizes: int64 ``[n]``, each 1 ≤ size ≤ capacity.
        capacity: capacity of a bin.

    Returns:
        The item numbers of each bin, ascending; bins in the order they were opened.
    """
    bins: list[list[int]] = []
    by_room: list[list[int]] = [[] for _ in range(capacity + 1)]
    rooms = 0
    for item in np.argsort(-sizes, kind="stable").tolist():
        size = int(sizes[item])
        fitting = rooms >> size
        if fitting:
            room = size + (fitting & -fitting).bit_length() - 1
            number = by_room[room].pop()
            if not by_room[room]:
                rooms ^= 1 << room
        else:
            room, number = capacity, len(bins)
            bins.append([])
        bins[number].append(item)
        left = room - size
        if left:
            by_room[left].append(number)
            rooms |= 1 << left
    return [sorted(items) for items in bins]


def in_order(lengths: npt.NDArray[np.int64], block_length: int) -> list[list[Piece]]:
    """Plan blocks that hold documents as they come (a mistake the oracle recognises).

    Args and returns as `plan_blocks`.
    """
    blocks: list[list[Piece]] = []
    room = 0
    for piece in pieces_of(lengths, block_length - 1):
        size = piece.stop - piece.start + 1
        if size > room:
            blocks.append([])
            room = block_length
        blocks[-1].append(piece)
        room -= size
    return blocks


def plan_blocks(lengths: npt.NDArray[np.int64], block_length: int) -> list[list[Piece]]:
    """Plan the blocks that hold all documents.

    Args:
        lengths: int64 ``[documents]``, tokens without the closing end-of-text token.
        block_length: tokens of a block, closing tokens included.

    Returns:
        The pieces of each block, in document order.
    """
    pieces = pieces_of(lengths, block_length - 1)
    sizes = np.array([piece.stop - piece.start + 1 for piece in pieces], np.int64)
    return [[pieces[item] for item in items] for items in best_fit(sizes, block_length)]


GENERATOR_SEED = 20_240_611
PAIRS_SEED = 20_240_619
"""Seed of captions and transcripts, and of their images and sounds."""
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
    drawn = np.searchsorted(_zipf_distribution(END_OF_TEXT), random.random(count), side="right")
    return np.minimum(drawn, END_OF_TEXT - 1).astype(np.uint16)


@cache
def _zipf_distribution(words: int) -> npt.NDArray[np.float64]:
    weights = 1 / (np.arange(words) + 2.7)
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

    It takes enough documents to fill them, and drops blocks beyond `elements`. The order of the
    blocks is shuffled, because packing puts the longest documents first.

    Args:
        directory: output directory.
        name: readable name of the documents.
        documents: token ids of each document, uint16 ``[n]``.
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
    cumulated = _zipf_distribution(len(WORDS))
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


def _words(text: str) -> list[str]:
    return text.split()


ADJECTIVES = _words(
    "small large young old red green blue yellow white black brown wooden metal bright dark quiet "
    "crowded empty wet dry snowy sunny cloudy tall short narrow wide busy calm colorful striped "
    "spotted shiny rusty broken modern antique fresh sliced frozen"
)
NOUNS = _words(
    "man woman child boy girl group dog cat horse elephant bird sheep cow zebra giraffe bear bus "
    "train truck car bicycle motorcycle airplane boat street road field beach mountain river lake "
    "forest park garden kitchen table chair couch bed window door mirror clock lamp plate bowl "
    "pizza sandwich cake apple banana orange bottle cup glass knife fork spoon phone laptop book "
    "umbrella backpack skateboard surfboard snowboard frisbee kite ball racket bench fence sign"
)
VERBS = _words(
    "standing sitting walking running riding holding looking lying flying eating playing waiting "
    "jumping carrying reading talking sleeping climbing driving crossing"
)
PLACES = _words("near on under behind beside above across inside between against")
WORDS = tuple(dict.fromkeys(["a", "the", "and", "with", *ADJECTIVES, *NOUNS, *VERBS, *PLACES]))


def caption(random: np.random.Generator) -> str:
    """Write one caption of about ten words, as in COCO."""

    def thing() -> str:
        article = ("a", "the")[int(random.integers(2))]
        described = f"{random.choice(ADJECTIVES)} " if random.random() < 0.6 else ""
        return f"{article} {described}{random.choice(NOUNS)}"

    text = f"{thing()} {random.choice(VERBS)} {random.choice(PLACES)} {thing()}"
    while random.random() < 0.35 and len(text) < 100:
        text += f" and {thing()} {random.choice(PLACES)} {thing()}"
    return f"{text[0].upper()}{text[1:]}."


def captions(random: np.random.Generator, count: int) -> list[npt.NDArray[np.uint8]]:
    """Write captions, each the UTF-8 bytes uint8 ``[length]``."""
    return [np.frombuffer(caption(random).encode(), np.uint8) for _ in range(count)]
