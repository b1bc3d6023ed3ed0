"""Faults of a stream that mixes sources: their shares, their mixing, and their passes."""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from skymark.model.record import Cause
from skymark.suites.loading.dataset.canonical import Array
from skymark.suites.loading.mixture import Mixing, Mixture

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
