"""A small byte-pair tokenizer of a fixed vocabulary, learned from a fixed list of words.

Sennrich, Haddow and Birch, "Neural machine translation of rare words with subword units"
(ACL 2016), on bytes, with text cleaned and cut into words as CLIP does (Radford et al., "Learning
transferable visual models from natural language supervision", 2021): lower case, a letter run, a
single digit or a run of other signs is a word, and a word's last byte is marked. The work per
caption is that of CLIP's tokenizer; only the vocabulary is smaller, so that nothing has to be
downloaded.

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
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from skymark.suites.loading.dataset.captions import WORDS

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
    """Merge a word's bytes, the pair learned first before the others."""
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


def document_tokens(data: npt.NDArray[np.uint8], *, lower: bool = True) -> npt.NDArray[np.int32]:
    """Return all tokens of a document given as UTF-8 bytes, uint8 ``[length]``; int32 ``[n]``."""
    return np.array(text_tokens(bytes(data).decode(), lower=lower), np.int32)


def tokenise_bytes(
    data: npt.NDArray[np.uint8], context: int = CONTEXT, *, delimited: bool = True
) -> npt.NDArray[np.int32]:
    """Return the tokens of a text given as UTF-8 bytes, uint8 ``[length]``; see `tokenise`."""
    return tokenise(bytes(data).decode(), context, delimited=delimited)
