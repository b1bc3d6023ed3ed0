"""Plan of documents in blocks: best-fit decreasing bin packing, once per dataset.

Ding et al., "Fewer truncations improve language modeling" (ICML 2024): documents longer than a
block are cut into pieces, and pieces, longest first, go into the fullest block that still has
room, so that no document is cut for the sake of padding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


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

    The fullest bin with room is found in a bit set of the room that open bins have left, so that
    a document costs about a microsecond whatever the number of bins.

    Args:
        sizes: int64 ``[n]``, each 1 ≤ size ≤ capacity.
        capacity: of a bin.

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
