"""Check which elements came: each exactly once, or from mixed sources in their shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log, sqrt
from typing import Any

import numpy as np

from skymark.model.record import Cause
from skymark.model.sizes import percent
from skymark.suites.loading.dataset.canonical import Array
from skymark.suites.loading.oracle.oracle import Check, Oracle
from skymark.suites.loading.work import Mixing, Mixture

CHANCE = 1e-9
"""Largest probability, per comparison, of rejecting honest random draws."""

OFF_SCHEDULE = 2
"""Largest error of an exact schedule in a stretch, in elements: one at either end."""

STRETCHES = 8
"""Equal parts of an epoch. In each, every source must have its share."""

UNEVEN_RANKS = 0.1
"""Largest difference between the ranks' numbers of elements, as a share of an even one, besides a
batch."""

UNEVEN_SHARDS = 0.5
"""The same where ranks share out whole shards."""

LARGEST_SPREAD = 2
"""Largest allowed difference between the most and the least deliveries of one source's elements in
an epoch, if each worker goes through a share of its own. Workers need not be equally far."""


def flat_indices(indices: Sequence[Any]) -> list[Array]:
    """Return the ``index`` array of each batch, of any array library, as int64 ``[B]``."""
    return [np.asarray(index).reshape(-1).astype(np.int64) for index in indices]


def stream_of(indices: Sequence[Any]) -> Array:
    """Return the elements of batches in order of delivery, int64 ``[n]``.

    Args:
        indices: the ``index`` array of each batch, of any array library.
    """
    flat = flat_indices(indices)
    return np.concatenate(flat) if flat else np.empty(0, np.int64)


@dataclass(frozen=True)
class Elements(Check):
    """An epoch delivers each element exactly once (at most once if incomplete).

    If the scenario mixes sources, the share of each source is its weight, and no element repeats
    before its source is exhausted.
    """

    epoch: int
    indices: Sequence[Any]
    """The ``index`` array of each batch, in order of delivery."""
    complete: bool = True
    """Whether the epoch ran to its end."""
    drop_last: bool = False
    """Whether the job asked to drop the last short batch."""
    batch_size: int | None = None
    """The size that the job asked for; None allows any."""
    streams: int = 1
    """Number of ranks in these batches, each with a last batch of its own."""

    def fault(self, oracle: Oracle) -> Cause | None:
        """Count the epoch and its elements, and return the first of its faults."""
        oracle.epochs += 1
        oracle.was_stopped |= not self.complete
        batches, total = flat_indices(self.indices), len(oracle.dataset)
        if not batches:
            message = f"epoch {self.epoch} delivered no batch at all"
            return Cause(kind="no-batches", message=message)
        stream = np.concatenate(batches)
        oracle.indexed_elements += len(stream)
        fault = self._repeated_batch(batches) or self._odd_batch(batches, oracle)
        fault = fault or unknown_element(self.epoch, stream, total)
        if fault or (mixture := oracle.scenario.mixture) is None:
            size = self.batch_size or oracle.scenario.size.batch_size
            return fault or self._repeated(stream, total) or self._missing(batches, total, size)
        return self._of_sources(stream, mixture, oracle.declared.mixing)

    def _repeated_batch(self, batches: list[Array]) -> Cause | None:
        """Look for a batch served twice in a row."""
        for number, (previous, batch) in enumerate(pairwise(batches), 1):
            if len(batch) and np.array_equal(previous, batch):
                return Cause(
                    kind="repeated-batch",
                    message=f"batch {number} of epoch {self.epoch} is batch {number - 1} served "
                    f"again (elements {_some(batch)})",
                )
        return None

    def _odd_batch(self, batches: list[Array], oracle: Oracle) -> Cause | None:
        """Look for batches of another size. Each length bucket may end with a short batch."""
        if self.batch_size is None:
            return None
        size, boundaries = oracle.batch_size or self.batch_size, oracle.scenario.bucket_boundaries
        if (largest := max(map(len, batches))) > size:
            return Cause(
                kind="batch-size",
                message=f"a batch has {largest} elements, and should have {size}",
            )
        short = [number for number, batch in enumerate(batches[:-1]) if len(batch) != size]
        ends = self.streams * (1 + oracle.declared.allowed_short_batches) * (1 + len(boundaries))
        if len(short) < ends:
            return None
        return Cause(
            kind="batch-size",
            message=f"batch {short[0]} of epoch {self.epoch} has {len(batches[short[0]])} elements "
            f"before the end, and should have {size}",
        )

    def _repeated(self, stream: Array, total: int) -> Cause | None:
        """Look for elements that were delivered more than once."""
        known, counts = np.unique(stream, return_counts=True)
        repeated = known[counts > 1]
        if not repeated.size:
            return None
        return Cause(
            kind="repeated-element",
            message=f"epoch {self.epoch} delivered {_some(repeated)} more than once "
            f"({len(stream) - len(known)} surplus of {total} elements)",
        )

    def _missing(self, batches: list[Array], total: int, size: int) -> Cause | None:
        """Look for missing elements in an epoch that ran to its end."""
        if not self.complete:
            return None
        missing = np.flatnonzero(np.bincount(np.concatenate(batches), minlength=total) == 0)
        if not missing.size or (self.drop_last and missing.size == total % size):
            return None
        only_full = all(len(batch) == size for batch in batches)
        is_tail = only_full and missing.size <= size * self.streams
        tail = "dropped tail: what was left after the last full batch is missing, "
        return Cause(
            kind="dropped-tail" if is_tail else "missing-element",
            message=f"{tail if is_tail else ''}epoch {self.epoch} never delivered {_some(missing)} "
            f"({missing.size} of {total} elements)",
        )

    def _of_sources(self, stream: Array, mixture: Mixture, mixing: Mixing) -> Cause | None:
        """Look for a fault in an epoch of mixed sources."""
        if self.complete and len(stream) != mixture.elements:
            return Cause(
                kind="missing-element" if len(stream) < mixture.elements else "repeated-element",
                message=f"epoch {self.epoch} has {len(stream)} elements of the stream, where "
                f"{mixture.elements} are an epoch",
            )
        source = np.searchsorted([end for _, end in mixture.bounds], stream, side="right")
        if (fault := _share_fault(source, mixture, mixing)) is not None:
            return Cause(kind="ignored-weights", message=f"in epoch {self.epoch} {fault}")
        for stretch in np.array_split(source, STRETCHES):
            if fault := _share_fault(stretch, mixture, mixing):
                return Cause(
                    kind="unmixed",
                    message=f"in a stretch of {len(stretch)} elements of epoch {self.epoch} "
                    f"{fault}: sources are to be mixed throughout",
                )
        for number, (begin, end) in enumerate(mixture.bounds):
            drawn = stream[source == number] - begin
            of_worker = mixing == "worker draws"
            early = uneven(drawn, end - begin) if of_worker else early_repeat(drawn, end - begin)
            if early is not None:
                return Cause(
                    kind="repeated-element",
                    message=f"epoch {self.epoch} delivered element {early + begin} of source "
                    f"{number} again before its source had been gone through",
                )
        return None


@dataclass(frozen=True)
class RankElements(Check):
    """No rank delivers an element that another rank delivers, and all deliver as many."""

    epoch: int
    ranks: Sequence[Sequence[Any]]
    """Per rank, the ``index`` array of each batch."""
    complete: bool = False
    """Whether the epoch ran to its end on every rank."""

    def fault(self, oracle: Oracle) -> Cause | None:
        """Look for elements that two ranks delivered, and for unequal shares."""
        return self._foreign(oracle) or self._uneven(oracle)

    def _uneven(self, oracle: Oracle) -> Cause | None:
        """Look for unequal shares of a whole epoch."""
        sizes = [sum(map(len, indices)) for indices in self.ranks]
        largest = max((len(index) for rank in self.ranks for index in rank), default=0)
        share = UNEVEN_SHARDS if "shards" in oracle.declared.shuffle else UNEVEN_RANKS
        allowed = share * sum(sizes) / len(sizes) + largest
        if not self.complete or max(sizes) - min(sizes) <= allowed:
            return None
        return Cause(
            kind="uneven-ranks",
            message=f"in epoch {self.epoch} rank {sizes.index(max(sizes))} delivered {max(sizes)} "
            f"elements, and rank {sizes.index(min(sizes))} {min(sizes)}: ranks share the data "
            "equally, because a training step waits for the slowest",
        )

    def _foreign(self, oracle: Oracle) -> Cause | None:
        total = len(oracle.dataset)
        owner = np.full(total, -1)
        for rank, indices in enumerate(self.ranks):
            order = stream_of(indices)
            order = order[(order >= 0) & (order < total)]
            foreign = order[owner[order] >= 0]
            if foreign.size:
                other = owner[foreign[0]]
                shared = np.unique(order[owner[order] == other])
                return Cause(
                    kind="another-rank",
                    message=f"rank {rank} delivered elements of another rank: epoch {self.epoch}, "
                    f"{_some(shared)} came from rank {other} too ({shared.size} in all)",
                )
            owner[order] = rank
        return None


def unknown_element(epoch: int, stream: Array, total: int) -> Cause | None:
    """Look for indices beyond the dataset's length."""
    unknown = stream[(stream < 0) | (stream >= total)]
    if not unknown.size:
        return None
    return Cause(
        kind="unknown-element",
        message=f"epoch {epoch} delivered index {unknown[0]} of {total} elements",
    )


def _some(indices: Array) -> str:
    shown = ", ".join(str(index) for index in indices[:5].tolist())
    return f"element{'s' if len(indices) > 1 else ''} {shown}" + (" …" if len(indices) > 5 else "")


def _share_fault(source: Array, mixture: Mixture, mixing: Mixing) -> str | None:
    """Describe the source whose share in a stretch differs too much from its weight."""
    count = np.bincount(source, minlength=len(mixture.sizes))
    off = count - np.array(mixture.weights) * len(source)
    worst = int(np.argmax(np.abs(off)))
    if abs(off[worst]) <= allowed(len(source), mixing):
        return None
    return (
        f"source {worst} has {percent(count[worst] / len(source), 1)} of the elements, and its "
        f"weight is {mixture.weights[worst]:g}"
    )


def allowed(elements: int, mixing: Mixing) -> float:
    """Return the number of elements by which a source may miss its share in a stretch.

    The count of n independent draws is off by t or more with probability 2 exp(-2 t² / n) at most.
    Source: Hoeffding, "Probability inequalities for sums of bounded random variables", 1963.
    """
    return OFF_SCHEDULE if mixing == "schedule" else sqrt(elements * log(2 / CHANCE) / 2)


def early_repeat(drawn: Array, size: int) -> int | None:
    """Return an element that was repeated within a pass, wherever passes begin; None without one.

    Passes of `size` draws begin at some place and at each multiple of `size` from there. A pass
    must begin between two draws of the same element, which allows an arc of the circle of places.
    The arcs of all such pairs must share a place.

    Args:
        drawn: elements of one source, each 0 ≤ element < size, in order of delivery.
        size: elements of the source.
    """
    order = np.argsort(drawn, kind="stable")
    same = np.flatnonzero(drawn[order[1:]] == drawn[order[:-1]])
    first, second = order[same], order[same + 1]
    near = second - first < size
    first, second = first[near], second[near]
    begin, end = (first + 1) % size, second % size
    arcs = np.zeros(size + 1, np.int64)
    np.add.at(arcs, begin, 1)
    np.add.at(arcs, end + 1, -1)
    arcs[0] += np.count_nonzero(begin > end)
    common = np.cumsum(arcs[:size])
    place = int(np.argmax(common))
    if common[place] == len(first):
        return None
    covers = np.where(
        begin <= end, (begin <= place) & (place <= end), (place >= begin) | (place <= end)
    )
    return int(drawn[first[np.argmin(covers)]])


def uneven(drawn: Array, size: int) -> int | None:
    """Return an element that was delivered too often, compared with the rarest one, or None."""
    counts = np.bincount(drawn, minlength=size)
    most = int(np.argmax(counts))
    return most if counts[most] - counts.min() > LARGEST_SPREAD else None
