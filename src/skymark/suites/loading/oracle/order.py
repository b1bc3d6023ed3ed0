"""Check the order of delivery: the motion of elements from storage, and from epoch to epoch.

A global shuffle of n elements moves each by n / 3 places on average. A buffer of K moves it by
about K. Shards move it as far as their number allows.

Some statistics are shares of their expectation for a uniform permutation, so 1 is uniform. The
rest are shares of elements, and 0 is uniform.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, lgamma
from typing import Any

import numpy as np

from skymark.model.record import Cause
from skymark.model.sizes import percent
from skymark.suites.loading.dataset.canonical import Array
from skymark.suites.loading.oracle.elements import flat_indices, stream_of
from skymark.suites.loading.oracle.oracle import Check, Oracle

FEW = 16
"""Longest stream that may be in storage order by chance."""

ENOUGH = 64
"""Least elements for which the mean displacement of a global shuffle is near its expectation."""

LEAST = 0.5
"""Least share of the expected displacement. 64 random elements fall below with p < 1e-6."""

PAIRS = 0.5
"""Share of neighbours that are neighbours again. By chance it is 1 / n, in storage 2 / n."""

MOST_PLACES = 8
"""Largest lookup table per element of a stream. Elements are mostly the numbers from 0 on, and then
a table of 200,000 takes a tenth of the time of sorting."""


@dataclass(frozen=True)
class Order(Check):
    """An epoch is shuffled as the adapter declares, and anew."""

    epoch: int
    indices: Sequence[Any]
    """The ``index`` array of each batch of one rank, in order of delivery."""
    rank: int = 0

    def fault(self, oracle: Oracle) -> Cause | None:
        """Count the places that elements moved, and return the first fault of their order."""
        batches, stream = flat_indices(self.indices), stream_of(self.indices)
        kind, enough = oracle.declared.shuffle, len(stream) >= ENOUGH
        before = oracle.streams.get(self.rank)
        oracle.streams[self.rank] = self.epoch, stream
        if self.epoch == 0:
            oracle.first_streams[self.rank] = stream
        moved = displacement(stream) if enough else 0.0
        if enough:
            places = (len(stream) ** 2 - 1) / 3
            oracle.moved_places += round(moved * places)
            oracle.uniform_places += round(places)
        if len(stream) > FEW and np.all(np.diff(stream) > 0):
            message = f"epoch {self.epoch} came in storage order, and should be shuffled"
            return Cause(kind="not-shuffled", message=message)
        if not enough:
            return None
        fault = self._hardly(kind, _near(stream, moved, kind))
        if fault is None and before is not None:
            fault = self._repetition(stream, kind, *before)
        if kind == "global" and not oracle.scenario.bucket_boundaries:
            fault = fault or self._hardly(kind, _crowded(batches))  # buckets may lie together
        return fault

    def _hardly(self, kind: str, how: str | None) -> Cause | None:
        if how is None:
            return None
        return Cause(
            kind="hardly-shuffled",
            message=f"epoch {self.epoch} is hardly shuffled: {how}; the adapter declares {kind!r}",
        )

    def _repetition(self, stream: Array, kind: str, other: int, before: Array) -> Cause | None:
        """Look for the order of an earlier epoch."""
        common = min(len(stream), len(before))
        same = common >= ENOUGH and np.array_equal(stream[:common], before[:common])
        if not same and (kind != "global" or neighbours(stream, before) < PAIRS):
            return None
        return Cause(
            kind="same-order",
            message=f"epoch {self.epoch} came in the order of epoch {other}; every epoch must be "
            "shuffled anew",
        )


@dataclass(frozen=True)
class SameOrder(Check):
    """Another process delivers epoch 0 in the same order."""

    stream: Array
    """Elements in order of delivery, int64 ``[n]``."""
    other: Array
    """Elements in the other process, which may be more or fewer."""
    where: str
    """The other process, such as ``in an earlier round``."""

    def fault(self, oracle: Oracle) -> Cause | None:
        """Look for the first difference."""
        common = min(len(self.stream), len(self.other))
        different = np.flatnonzero(self.stream[:common] != self.other[:common])
        if not oracle.declared.seeded or not different.size:
            return None
        place = int(different[0])
        return Cause(
            kind="not-reproducible",
            message=f"the same seed gave another order {self.where}: element {self.other[place]} "
            f"of epoch 0 is at place {place}, where it is {self.stream[place]} here; an adapter "
            "whose order depends on more than the seed must not declare the ability 'seeded'",
        )


def _near(stream: Array, moved: float, kind: str) -> str | None:
    """Describe a stream whose elements stay too near to their places in storage."""
    if moved < LEAST * expected_displacement(kind, len(stream)):
        return f"elements moved {percent(moved, 1)} of the distance of a global shuffle"
    together = stream_neighbours(stream)
    if kind == "global" and together >= PAIRS:
        return f"{percent(together)} of the elements came next to a neighbour in storage"
    return None


def _crowded(batches: Sequence[Array]) -> str | None:
    """Describe batches that draw from too few places in storage for a global shuffle."""
    drawn = batch_neighbourhoods(batches, max(map(len, batches)))
    if drawn >= LEAST:
        return None
    return (
        f"a batch draws from {percent(drawn, 1)} of the places in storage that it would draw from "
        "with a global shuffle"
    )


def expected_displacement(kind: str, elements: int) -> float:
    """Return the least displacement that a kind of shuffle promises, as such a share.

    Shards promise none. A buffer of K moves each element by about K / 2 places at least.
    """
    if kind == "global":
        return 1.0
    name, _, size = kind.partition(" ")
    return min(1.0, 1.5 * int(size) / elements) if name == "buffer" else 0.0


def ranks(stream: Array) -> Array:
    """Return each element's rank in storage among the stream's elements, int64 ``[n]``."""
    if (size := _places(stream)) is not None:
        is_there = np.zeros(size, bool)
        is_there[stream] = True
        place = np.cumsum(is_there) - 1
        if place[-1] + 1 == len(stream):  # each element once
            return place[stream]
    return np.argsort(np.argsort(stream))


def _places(*streams: Array) -> int | None:
    """Return the size of a table of all elements; None if it would be too large."""
    if not all(map(len, streams)) or min(int(one.min()) for one in streams) < 0:
        return None
    places = max(int(one.max()) for one in streams) + 1
    return places if places <= MOST_PLACES * max(map(len, streams)) else None


def displacement(stream: Array) -> float:
    """Return the mean distance of elements from storage, as a share of a uniform permutation's.

    The element at place i of a uniform permutation of n moved by |i - j|, with all j equally
    probable. The mean is (n² - 1) / 3n places (expectation of Spearman's footrule over n: Diaconis
    and Graham, "Spearman's footrule as a measure of disarray", 1977).

    Args:
        stream: distinct elements, two or more, in order of delivery, int64 ``[n]``.
    """
    elements = len(stream)
    moved = np.abs(ranks(stream) - np.arange(elements)).mean()
    return float(moved * 3 * elements / (elements**2 - 1))


def neighbours(stream: Array, before: Array) -> float:
    """Return the share of successive elements that are also successive in another stream."""
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
    """Return the number of storage neighbourhoods in a batch, as a share of a uniform draw's.

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
    """Return the mean number of neighbourhoods that a uniform draw without replacement meets.

    It misses a neighbourhood of b elements with the hypergeometric probability
    C(n - b, k) / C(n, k).

    Args:
        elements: n.
        size: b, of each neighbourhood; the last one may be smaller.
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
