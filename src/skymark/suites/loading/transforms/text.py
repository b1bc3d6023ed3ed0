"""Token ids made ready for language models: packed blocks, or padded sequences with a mask.

A packed block contains consecutive documents, and is shifted into inputs and targets. Segment ids
and positions tell the documents of a block apart, as attention over packed sequences needs (Krell,
Kosec, Perez and Fitzgibbon, "Efficient sequence packing without cross-contamination", 2021).

The tokenizer follows Sennrich, Haddow and Birch, "Neural machine translation of rare words with
subword units" (ACL 2016), on bytes. It cleans and splits text like CLIP (Radford et al., "Learning
transferable visual models from natural language supervision", 2021). Text becomes lower case. A run
of letters, a single digit or a run of other signs is a word, and a word's last byte is marked. The
work per caption equals CLIP's; the vocabulary is smaller, so that there is no download.

| id                  | token                                    |
|---------------------|------------------------------------------|
| 0                   | padding                                  |
| 1 … 256             | a byte within a word                     |
| 257 … 512           | a byte that ends a word                  |
| 513 … 512 + `MERGES`| merged pairs, in the order learned       |
| then                | start of text, end of text               |
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skymark.suites.loading.dataset.text import WORDS
from skymark.suites.loading.work import Stage, on

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
    """Put a start token before and an end token after a sequence; None for no token.

    Args:
        tokens: integers ``[n]``.
        start: the token before.
        end: the token after.

    Returns:
        int32 ``[n + 2]``, or shorter without a token.
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


MERGES = 256
FIRST_MERGE = 513
START = FIRST_MERGE + MERGES
END = START + 1
CONTEXT = 77
"""Tokens per caption in CLIP."""

Pair = tuple[int, int]

_WORD = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d|[^\W\d_]+|\d|(?:[^\w\s]|_)+")


def symbols(word: str) -> tuple[int, ...]:
    """Return a word's bytes as tokens, the last one marked as the end of the word."""
    data = word.encode()
    return (*(byte + 1 for byte in data[:-1]), data[-1] + 257)


def merged(word: tuple[int, ...], pair: Pair, token: int) -> tuple[int, ...]:
    """Replace every occurrence of a pair by one token, from left to right."""
    result: list[int] = []
    for symbol in word:
        if result and (result[-1], symbol) == pair:
            result[-1] = token
        else:
            result.append(symbol)
    return tuple(result)


def learn(words: Iterable[str], merges: int) -> dict[Pair, int]:
    """Learn byte pairs: the most frequent pair of neighbours becomes a token, again and again.

    Args:
        words: each counts once.
        merges: how many pairs to learn.

    Returns:
        Pair to token, in the order learned; of pairs equally frequent the lowest comes first.
    """
    spelled = [symbols(word) for word in words]
    pairs: dict[Pair, int] = {}
    for token in range(FIRST_MERGE, FIRST_MERGE + merges):
        counts = Counter(pair for word in spelled for pair in pairwise(word))
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        pairs[best] = token
        spelled = [merged(word, best, token) for word in spelled]
    return pairs


@cache
def byte_pairs() -> dict[Pair, int]:
    """Return the vocabulary's pairs, learned once per process (about 50 ms)."""
    return learn(WORDS, MERGES)


@lru_cache(maxsize=65_536)
def word_tokens(word: str) -> tuple[int, ...]:
    """Merge a word's bytes, earlier learned pairs first."""
    pairs = byte_pairs()
    tokens = symbols(word)
    while len(tokens) > 1:
        best = min(pairwise(tokens), key=lambda pair: pairs.get(pair, END))
        if best not in pairs:
            break
        tokens = merged(tokens, best, pairs[best])
    return tokens


def text_tokens(text: str, *, lower: bool = True) -> list[int]:
    """Return the tokens of a text, without start, end or padding.

    Args:
        text: any text.
        lower: False keeps the case of letters (a mistake the oracle recognises).
    """
    cleaned = text.lower() if lower else text
    return [token for word in _WORD.findall(cleaned) for token in word_tokens(word)]


def tokenise(text: str, context: int = CONTEXT, *, delimited: bool = True) -> npt.NDArray[np.int32]:
    """Return a text's tokens between a start and an end token, padded with zeros.

    Args:
        text: any text; what does not fit is cut off, but not the end token.
        context: tokens in all.
        delimited: False leaves start and end out (a mistake the oracle recognises).

    Returns:
        int32 ``[context]``.
    """
    tokens = text_tokens(text)
    if delimited:
        tokens = [START, *tokens[: context - 2], END]
    ids = np.zeros(context, np.int32)
    ids[: len(tokens)] = tokens[:context]
    return ids


def tokenise_stage(field: str) -> Stage:
    """Return the stage that turns UTF-8 bytes into the field ``text``, with its known mistake."""
    bare = on(field, lambda data: tokenise_bytes(data, delimited=False), into="text")
    right = on(field, tokenise_bytes, into="text")
    return Stage("tokenise", right, {"start and end tokens are missing": bare})


def document_tokens(data: npt.NDArray[np.uint8], *, lower: bool = True) -> npt.NDArray[np.int32]:
    """Return all tokens of a document given as UTF-8 bytes, uint8 ``[length]``; int32 ``[n]``."""
    return np.array(text_tokens(bytes(data).decode(), lower=lower), np.int32)


def tokenise_bytes(
    data: npt.NDArray[np.uint8], context: int = CONTEXT, *, delimited: bool = True
) -> npt.NDArray[np.int32]:
    """Return the tokens of a text given as UTF-8 bytes, uint8 ``[length]``; see `tokenise`."""
    return tokenise(bytes(data).decode(), context, delimited=delimited)
