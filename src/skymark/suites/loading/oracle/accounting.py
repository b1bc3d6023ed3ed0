"""Faults in the streams of indices that a loader delivered.

Each function looks for one kind of fault and returns it as a cause, or None.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log, sqrt
from typing import Any

import numpy as np

from skymark.model.record import Cause
from skymark.suites.loading.dataset.canonical import Array, Element
from skymark.suites.loading.element_streams import Mixing, Mixture, bucket_of
from skymark.suites.loading.scenario import Scenario

FEW = 16
"""Streams up to this length may be in storage order by chance."""


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


def batches_fault(
    epoch: int, batches: Sequence[Array], batch_size: int | None, allowed_short: int | None
) -> Cause | None:
    """Look for a batch served twice in a row, and for batches of another size.

    Args:
        epoch: for the message.
        batches: the elements of each batch, ``[B]``, in order of delivery.
        batch_size: what the job asked for; None skips that check.
        allowed_short: short batches before the last that are no fault; None for any number.
    """
    for number, (previous, batch) in enumerate(pairwise(batches), 1):
        if len(batch) and np.array_equal(previous, batch):
            return Cause(
                kind="repeated-batch",
                message=f"batch {number} of epoch {epoch} is batch {number - 1} served again "
                f"(elements {_some(batch)})",
            )
    if batch_size is None:
        return None
    if (largest := max(map(len, batches), default=0)) > batch_size:
        return Cause(
            kind="batch-size",
            message=f"a batch of {largest} elements, where {batch_size} were asked for",
        )
    short = [number for number, batch in enumerate(batches[:-1]) if len(batch) != batch_size]
    if allowed_short is not None and len(short) > allowed_short:
        return Cause(
            kind="batch-size",
            message=f"batch {short[0]} of epoch {epoch} has {len(batches[short[0]])} elements "
            f"before the end, where {batch_size} were asked for",
        )
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


def repeated_element(epoch: int, stream: Array, total: int) -> Cause | None:
    """Look for elements that came more than once; every index must be known."""
    known, counts = np.unique(stream, return_counts=True)
    repeated = known[counts > 1]
    if not repeated.size:
        return None
    return Cause(
        kind="repeated-element",
        message=f"epoch {epoch} delivered {_some(repeated)} more than once "
        f"({len(stream) - len(known)} surplus of {total} elements)",
    )


def missing_element(
    epoch: int,
    batches: Sequence[Array],
    total: int,
    batch_size: int,
    *,
    drop_last: bool,
    streams: int,
) -> Cause | None:
    """Look for elements that never came, in an epoch that ran to its end.

    Args:
        epoch: for the message.
        batches: the elements of each batch, ``[B]``; every index must be known.
        total: how many elements there are.
        batch_size: how many of them make a full batch.
        drop_last: whether the job asked to drop the last short batch.
        streams: how many ranks' batches these are, each with a last batch of its own.
    """
    missing = np.flatnonzero(np.bincount(np.concatenate(batches), minlength=total) == 0)
    if not missing.size or (drop_last and missing.size == total % batch_size):
        return None
    only_full = all(len(batch) == batch_size for batch in batches)
    is_tail = only_full and missing.size <= batch_size * streams
    tail = "dropped tail: what was left after the last full batch is missing, " if is_tail else ""
    return Cause(
        kind="dropped-tail" if is_tail else "missing-element",
        message=f"{tail}epoch {epoch} never delivered {_some(missing)} "
        f"({missing.size} of {total} elements)",
    )


def ranks_fault(epoch: int, ranks: Sequence[Sequence[Any]], total: int) -> Cause | None:
    """Look for elements that two ranks delivered.

    Args:
        epoch: for the message.
        ranks: per rank, the ``index`` array of each batch.
        total: how many elements there are.
    """
    owner = np.full(total, -1)
    for rank, indices in enumerate(ranks):
        order = stream_of(indices)
        order = order[(order >= 0) & (order < total)]
        foreign = order[owner[order] >= 0]
        if foreign.size:
            other = owner[foreign[0]]
            shared = np.unique(order[owner[order] == other])
            return Cause(
                kind="another-rank",
                message=f"rank {rank} delivered elements of another rank: epoch {epoch}, "
                f"{_some(shared)} came from rank {other} too ({shared.size} in all)",
            )
        owner[order] = rank
    return None


def storage_order(epoch: int, indices: Sequence[Any]) -> Cause | None:
    """Look for an epoch that was to be shuffled and came in storage order."""
    stream = stream_of(indices)
    if len(stream) <= FEW or not np.all(np.diff(stream) > 0):
        return None
    return Cause(
        kind="not-shuffled", message=f"epoch {epoch} came in storage order; a shuffle was asked"
    )


def mixed_buckets(epoch: int, elements: Sequence[Element], scenario: Scenario) -> Cause | None:
    """Look for a batch of several length buckets, where the scenario has such.

    Args:
        epoch: for the message.
        elements: the batch's elements after the stages.
        scenario: whose boundaries count.
    """
    name = scenario.length_field
    members = {bucket_of(element, scenario): element for element in elements}
    if name is None or len(members) < 2:
        return None
    shown = ", ".join(
        f"element {element['index']} of length {len(element[name])} is of bucket {bucket}"
        for bucket, element in sorted(members.items())
    )
    return Cause(
        kind="mixed-buckets",
        message=f"a batch of epoch {epoch} mixes length buckets: {shown} "
        f"(boundaries {', '.join(map(str, scenario.bucket_boundaries))})",
    )


def _some(indices: Array) -> str:
    shown = ", ".join(str(index) for index in indices[:5].tolist())
    return f"element{'s' if len(indices) > 1 else ''} {shown}" + (" …" if len(indices) > 5 else "")


CHANCE = 1e-9
"""Probability at most with which random draws lie outside of what is allowed, per comparison."""

OFF_SCHEDULE = 2
"""Elements by which an exact schedule may be off in a stretch: one at either end of it."""

STRETCHES = 8
"""Of an epoch, in each of which the sources must have their shares."""

LARGEST_SPREAD = 2
"""Between the most and the least that elements of a source came in an epoch, where each worker
begins a share of its own with it and need not be as far as the others."""


def mixture_fault(
    epoch: int,
    stream: Array,
    mixture: Mixture,
    mixing: Mixing,
    *,
    complete: bool,
) -> Cause | None:
    """Look for a fault in an epoch's stream of known elements.

    Args:
        epoch: for the message.
        stream: its elements in order of delivery, int64 ``[n]``.
        mixture: the sources and their weights.
        mixing: how the library picks sources.
        complete: whether the epoch ran to its end.
    """
    if complete and len(stream) != mixture.elements:
        return Cause(
            kind="missing-element" if len(stream) < mixture.elements else "repeated-element",
            message=f"epoch {epoch} has {len(stream)} elements of the stream, where "
            f"{mixture.elements} are an epoch",
        )
    source = np.searchsorted([end for _, end in mixture.bounds], stream, side="right")
    fault = _share_fault(source, mixture, mixing)
    if fault is not None:
        return Cause(kind="ignored-weights", message=f"in epoch {epoch} {fault}")
    for stretch in np.array_split(source, STRETCHES):
        if fault := _share_fault(stretch, mixture, mixing):
            return Cause(
                kind="unmixed",
                message=f"in a stretch of {len(stretch)} elements of epoch {epoch} {fault}: "
                "sources are to be mixed throughout",
            )
    for number, (begin, end) in enumerate(mixture.bounds):
        drawn = stream[source == number] - begin
        of_worker = mixing == "worker draws"
        early = uneven(drawn, end - begin) if of_worker else early_repeat(drawn, end - begin)
        if early is not None:
            return Cause(
                kind="repeated-element",
                message=f"epoch {epoch} delivered element {early + begin} of source {number} again "
                "before its source had been gone through",
            )
    return None


def _share_fault(source: Array, mixture: Mixture, mixing: Mixing) -> str | None:
    """Describe a source whose share in a stretch is not its weight, the one that is most off."""
    count = np.bincount(source, minlength=len(mixture.sizes))
    off = count - np.array(mixture.weights) * len(source)
    worst = int(np.argmax(np.abs(off)))
    if abs(off[worst]) <= allowed(len(source), mixing):
        return None
    return (
        f"source {worst} has {count[worst] / len(source):.1%} of the elements, where its weight is "
        f"{mixture.weights[worst]:g}"
    )


def allowed(elements: int, mixing: Mixing) -> float:
    """Return by how many elements a source may be off its share in a stretch.

    Of independent draws, the count is off by t or more with a probability of 2 exp(-2 t² / n) at
    most (Hoeffding, "Probability inequalities for sums of bounded random variables", 1963).
    """
    return OFF_SCHEDULE if mixing == "schedule" else sqrt(elements * log(2 / CHANCE) / 2)


def early_repeat(drawn: Array, size: int) -> int | None:
    """Return an element that came again within a pass, wherever passes begin; None for none.

    Passes of `size` draws begin at some place and at each multiple of `size` from there. Between
    two draws of an element one has to begin: that leaves for each two an arc of the circle of
    places, and the arcs of all must have a place in common.

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
    """Return an element that came too often beside the one that came least; None for none."""
    counts = np.bincount(drawn, minlength=size)
    most = int(np.argmax(counts))
    return most if counts[most] - counts.min() > LARGEST_SPREAD else None
