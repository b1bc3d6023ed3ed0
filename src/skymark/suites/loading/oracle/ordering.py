"""Orders of delivery: how far elements move from storage, and from epoch to epoch.

A shuffle of n elements that knows all of them moves one by n / 3 places on average; a buffer of K
moves it by about K, and shards whatever their number allows.

Those that a uniform permutation of n elements brings to about 1 are shares of its expectation; the
others are shares of elements, and those of a uniform permutation are near 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, lgamma

import numpy as np

from skymark.model.record import Cause
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


ENOUGH = 64
"""Elements from which on the average displacement of a global shuffle is near its expectation."""

LEAST = 0.5
"""Of the displacement expected; 64 elements in random order fall below with p < 1e-6."""

PAIRS = 0.5
"""Share of neighbours that are neighbours again; by chance it is 1 / n, in storage 2 / n."""


@dataclass
class Orders:
    """The streams of one loader's epochs, and what was measured of them."""

    kind: str = "global"
    """What the adapter declares: ``global``, ``shards``, ``buffer K``, or shards and a buffer."""
    previous: dict[int, tuple[int, Array]] = field(default_factory=dict)
    """Per rank the latest epoch and its stream."""
    moved_places: int = 0
    """By which the elements of all streams moved from storage together."""
    uniform_places: int = 0
    """By which those of uniform permutations move, on average."""

    def fault(self, epoch: int, stream: Array, rank: int = 0) -> Cause | None:
        """Look for an epoch that is hardly shuffled, or in the order of the one before.

        Args:
            epoch: for the message.
            stream: its elements in order of delivery, int64 ``[n]``.
            rank: whose stream it is; each has its own.
        """
        before = self.previous.get(rank)
        self.previous[rank] = epoch, stream
        if len(stream) < ENOUGH:
            return None
        moved = displacement(stream)
        places = (len(stream) ** 2 - 1) / 3
        self.moved_places += round(moved * places)
        self.uniform_places += round(places)
        if moved < LEAST * expected_displacement(self.kind, len(stream)):
            return Cause(
                kind="hardly-shuffled",
                message=f"epoch {epoch} is hardly shuffled: elements moved {moved:.1%} of what a "
                f"global shuffle moves them; the adapter declares {self.kind!r}",
            )
        together = stream_neighbours(stream)
        if self.kind == "global" and together >= PAIRS:
            return Cause(
                kind="hardly-shuffled",
                message=f"epoch {epoch} is hardly shuffled: {together:.0%} of the elements came "
                "next to a neighbour in storage; the adapter declares 'global'",
            )
        return None if before is None else self._repetition(epoch, stream, *before)

    def crowding(self, epoch: int, batches: Sequence[Array]) -> Cause | None:
        """Look for batches that a global shuffle was to fill, drawn from few places in storage.

        Args:
            epoch: for the message.
            batches: the elements of each batch, ``[B]``.
        """
        if self.kind != "global" or sum(map(len, batches)) < ENOUGH:
            return None
        drawn = batch_neighbourhoods(batches, max(map(len, batches)))
        if drawn >= LEAST:
            return None
        return Cause(
            kind="hardly-shuffled",
            message=f"epoch {epoch} is hardly shuffled: a batch draws from {drawn:.1%} of the "
            "places in storage that one of a global shuffle draws from; the adapter declares "
            "'global'",
        )

    def _repetition(self, epoch: int, stream: Array, other: int, before: Array) -> Cause | None:
        common = min(len(stream), len(before))
        same = common >= ENOUGH and np.array_equal(stream[:common], before[:common])
        if not same and (self.kind != "global" or neighbours(stream, before) < PAIRS):
            return None
        return Cause(
            kind="same-order",
            message=f"epoch {epoch} came in the order of epoch {other}; every epoch is to be "
            "shuffled anew",
        )


def expected_displacement(kind: str, elements: int) -> float:
    """Return the least displacement that a kind of shuffle promises, as such a share.

    Shards promise none. A buffer of K that meets its first elements at once delivers each of them
    about K / 2 places from where it was, at least.
    """
    if kind == "global":
        return 1.0
    name, _, size = kind.partition(" ")
    if name != "buffer":
        return 0.0
    return min(1.0, 1.5 * int(size) / elements)
