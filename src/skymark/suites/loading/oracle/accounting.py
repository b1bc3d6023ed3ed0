"""Faults in the streams of indices that a loader delivered.

Each function looks for one kind of fault and returns it as a cause, or None.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from skymark.model.record import Cause
from skymark.suites.loading.bucketing import bucket_of
from skymark.suites.loading.dataset.canonical import Array, Element
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
