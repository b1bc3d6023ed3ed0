"""Token ids made ready for language models: packed blocks, or padded sequences with a mask.

A packed block has documents laid one after another, and is shifted into inputs and targets.
Segment ids and positions tell the documents of a block apart, as attention over packed sequences
needs (Krell, Kosec, Perez and Fitzgibbon, "Efficient sequence packing without
cross-contamination", 2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

PADDING_SEGMENT = 0
"""Segment id of padding; documents count from 1."""


class Block(NamedTuple):
    """A packed block: int32 ``[L + 1]`` each."""

    tokens: npt.NDArray[np.int32]
    segment_ids: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int32]


def pack(
    tokens: npt.NDArray[Any],
    lengths: npt.NDArray[Any],
    block_length: int,
    end_of_text: int,
    *,
    separate: bool = True,
) -> Block:
    """Lay documents one after another, each closed by `end_of_text`, and pad to `block_length`.

    Args:
        tokens: integers ``[sum(lengths)]``, the documents' tokens in order.
        lengths: integers ``[documents]``, each at least 0.
        block_length: L + 1; what does not fit is cut off.
        end_of_text: closes a document and fills the padding, which GPT-2 has no token for.
        separate: False leaves the closing tokens out (a mistake the oracle recognises).

    Returns:
        Tokens, segment ids (1 for the first document, 0 for padding) and positions that start
        again at 0 in each document and in the padding.
    """
    spans = lengths.astype(np.int64) + int(separate)
    ends = np.cumsum(spans)
    used = int(ends[-1]) if len(ends) else 0
    whole = max(used, block_length)
    packed = np.full(whole, end_of_text, np.int32)
    segment_ids = np.zeros(whole, np.int32)
    starts = np.full(whole, used, np.int64)
    segment_ids[:used] = np.repeat(np.arange(1, len(spans) + 1, dtype=np.int32), spans)
    starts[:used] = np.repeat(ends - spans, spans)
    if separate:
        is_token = np.ones(used, np.bool_)
        is_token[ends - 1] = False
        packed[:used][is_token] = tokens
    else:
        packed[:used] = tokens
    positions = (np.arange(whole) - starts).astype(np.int32)
    return Block(packed[:block_length], segment_ids[:block_length], positions[:block_length])


def shift(block: Block, by: int = 1) -> dict[str, npt.NDArray[Any]]:
    """Split a block into inputs and next-token targets.

    Args:
        block: arrays ``[L + 1]``.
        by: how far targets lie ahead; only 1 is right.

    Returns:
        ``inputs``, ``targets``, ``segment_ids`` and ``positions`` int32 ``[L]``, and ``loss_mask``
        uint8 ``[L]``: 1 where the target is in the same document as its input.
    """
    length = len(block.tokens) - 1
    segments = block.segment_ids
    same = (segments[:-1] == segments[1:]) & (segments[1:] != PADDING_SEGMENT)
    targets = block.tokens[1:] if by == 1 else np.roll(block.tokens, -by)[:length]
    return {
        "inputs": block.tokens[:-1],
        "targets": targets,
        "segment_ids": segments[:-1],
        "positions": block.positions[:-1],
        "loss_mask": same.astype(np.uint8),
    }


def delimit(tokens: npt.NDArray[Any], start: int | None, end: int | None) -> npt.NDArray[np.int32]:
    """Put a start token before and an end token after a sequence; None leaves it out.

    Args:
        tokens: integers ``[n]``.
        start: the token before.
        end: the token after.

    Returns:
        int32 ``[n + 2]``, or shorter where one is left out.
    """
    first, last = int(start is not None), int(end is not None)
    delimited = np.empty(len(tokens) + first + last, np.int32)
    delimited[first : first + len(tokens)] = tokens
    if start is not None:
        delimited[0] = start
    if end is not None:
        delimited[-1] = end
    return delimited


def pad(
    sequences: Sequence[npt.NDArray[np.int32]], padding: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Pad sequences to the longest of them.

    Args:
        sequences: B arrays int32 ``[n]``.
        padding: the token to fill with.

    Returns:
        Token ids int32 ``[B, longest]`` and the attention mask uint8 ``[B, longest]``, 1 where a
        token is no padding.
    """
    lengths = np.array([len(sequence) for sequence in sequences])
    mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    ids = np.full(mask.shape, padding, np.int32)
    ids[mask] = np.concatenate(sequences)
    return ids, mask.astype(np.uint8)
