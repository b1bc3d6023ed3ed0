"""Statistics of shuffles: displacement, neighbours, neighbourhoods of a batch, epochs compared.

Those that a uniform permutation of n elements brings to about 1 are shares of its expectation; the
others are shares of elements, and those of a uniform permutation are near 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import exp, lgamma

import numpy as np

from skymark.suites.loading.dataset.canonical import Array

MOST_PLACES = 8
"""Largest table, per element of a stream, that is made in place of sorting: elements are mostly the
numbers from 0 on, and a table of 200,000 takes a tenth of the time."""


def ranks(stream: Array) -> Array:
    """Return the place that each element of a stream has in storage among them, int64 ``[n]``."""
    if (size := _places(stream)) is not None:
        is_there = np.zeros(size, bool)
        is_there[stream] = True
        place = np.cumsum(is_there) - 1
        if place[-1] + 1 == len(stream):  # each element once
            return place[stream]
    return np.argsort(np.argsort(stream))


def _places(*streams: Array) -> int | None:
    """Return the places that a table of all elements needs; None where it would be too large."""
    if not all(map(len, streams)) or min(int(one.min()) for one in streams) < 0:
        return None
    places = max(int(one.max()) for one in streams) + 1
    return places if places <= MOST_PLACES * max(map(len, streams)) else None


def displacement(stream: Array) -> float:
    """Return how far elements moved from storage on average, as a share of a uniform permutation's.

    The element at place i of a uniform permutation of n moved by |i - j|, with each j as probable:
    on average by (n² - 1) / 3n places (expectation of Spearman's footrule over n: Diaconis and
    Graham, "Spearman's footrule as a measure of disarray", 1977).

    Args:
        stream: distinct elements, two or more, in order of delivery, int64 ``[n]``.
    """
    elements = len(stream)
    moved = np.abs(ranks(stream) - np.arange(elements)).mean()
    return float(moved * 3 * elements / (elements**2 - 1))


def neighbours(stream: Array, before: Array) -> float:
    """Return the share of successive elements that followed one another in another stream, too."""
    if (size := _places(stream, before)) is not None:
        follower = np.full(size, -1)
        follower[before[:-1]] = before[1:]
        return float(np.mean(follower[stream[:-1]] == stream[1:]))
    followed = np.argsort(before[:-1])
    places = np.searchsorted(before[:-1], stream[:-1], sorter=followed)
    places = followed[np.minimum(places, len(followed) - 1)]
    again = (before[places] == stream[:-1]) & (before[places + 1] == stream[1:])
    return float(np.mean(again))


def stream_neighbours(stream: Array) -> float:
    """Return the share of successive elements that are neighbours in storage, in either direction.

    A uniform permutation of n elements has 2 / n of them.
    """
    storage = np.sort(stream)
    return neighbours(stream, storage) + neighbours(stream, storage[::-1])


def batch_neighbours(batches: Sequence[Array]) -> float:
    """Return the share of neighbours in storage that are in one batch.

    Batches of B elements of a uniform permutation of n have (B - 1) / (n - 1) of them.

    Args:
        batches: distinct elements ``[B]``, two or more in all.
    """
    number = np.repeat(np.arange(len(batches)), [len(batch) for batch in batches])
    of_element = number[np.argsort(np.concatenate(batches))]
    return float(np.mean(of_element[1:] == of_element[:-1]))


def batch_neighbourhoods(batches: Sequence[Array], size: int) -> float:
    """Return how many neighbourhoods of storage a batch draws from, as a share of a uniform draw's.

    Args:
        batches: distinct elements ``[B]``.
        size: successive elements of storage that are one neighbourhood.
    """
    lengths = [len(batch) for batch in batches]
    elements = sum(lengths)
    number = np.repeat(np.arange(len(batches)), lengths)
    neighbourhood = ranks(np.concatenate(batches)) // size
    drawn = np.unique(number * (elements // size + 1) + neighbourhood).size
    expected = sum(
        count * uniform_neighbourhoods(elements, size, length)
        for length, count in Counter(lengths).items()
    )
    return float(drawn / expected)


def uniform_neighbourhoods(elements: int, size: int, drawn: int) -> float:
    """Return how many neighbourhoods a uniform draw without replacement meets on average.

    One of b elements is missed with the hypergeometric probability C(n - b, k) / C(n, k).

    Args:
        elements: n.
        size: b, of each neighbourhood but the last, which has what is left.
        drawn: k.
    """
    whole, rest = divmod(elements, size)
    met = whole * (1 - _missed(elements, size, drawn))
    return met + (1 - _missed(elements, rest, drawn) if rest else 0.0)


def _missed(elements: int, size: int, drawn: int) -> float:
    left = elements - size
    if drawn > left:
        return 0.0
    return exp(
        lgamma(left + 1)
        + lgamma(elements - drawn + 1)
        - lgamma(left - drawn + 1)
        - lgamma(elements + 1)
    )


def rank_correlation(stream: Array, before: Array) -> float:
    """Return the correlation of elements' places in two orders of them (Spearman, 1904).

    1 is the same order, -1 the reverse, 0 neither.
    """
    return float(np.corrcoef(np.argsort(stream), np.argsort(before))[0, 1])
