"""Drive a loader as usual, and find how well its epochs were shuffled."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from skymark.suites.loading.drives import epochs
from skymark.suites.loading.drives.outcome import Bench, Outcome
from skymark.suites.loading.oracle import stream_of
from skymark.suites.loading.oracle.elements import flat_indices
from skymark.suites.loading.oracle.order import (
    batch_neighbourhoods,
    batch_neighbours,
    displacement,
    rank_correlation,
    stream_neighbours,
)

if TYPE_CHECKING:
    from skymark.measure.loop import Pass
    from skymark.suites.loading.dataset.canonical import Array


def drive(bench: Bench) -> Outcome:
    """Measure and verify one round; its figures are of the order of all elements."""
    outcome, (first, *measured) = epochs.measured(bench)
    outcome.extra |= shuffle_figures(first, measured, bench.job.batch_size)
    if bench.round == 0:
        epochs.check_seed(bench, first)
    return outcome


def shuffle_figures(first: Pass, measured: Sequence[Pass], batch_size: int) -> dict[str, float]:
    """Return the means over measured epochs; nothing where none ran to its end.

    Args:
        first: the epoch before them, to which the first of them is compared.
        measured: the measured epochs; one that was cut short does not count.
        batch_size: the elements of a neighbourhood of storage.
    """
    whole = [flat_indices(done.indices) for done in measured if done.complete and done.indices]
    if not whole:
        return {}
    streams = [stream_of(batches) for batches in whole]
    figures = {
        "shuffle_displacement": np.mean([displacement(stream) for stream in streams]),
        "stream_neighbours": np.mean([stream_neighbours(stream) for stream in streams]),
        "batch_neighbours": np.mean([batch_neighbours(batches) for batches in whole]),
        "batch_neighbourhoods": np.mean(
            [batch_neighbourhoods(batches, batch_size) for batches in whole]
        ),
    }
    before = [stream_of(first.indices)] if first.complete else []
    changes = [
        change
        for pair in pairwise([*before, *streams])
        if (change := correlation(*pair)) is not None
    ]
    if changes:
        figures["epoch_correlation"] = np.mean(changes)
    return {name: float(value) for name, value in figures.items()}


def correlation(before: Array, stream: Array) -> float | None:
    """Return how much of an order the next one keeps, 0 to 1; None of other elements.

    An order that is reversed is as little of a change as one that is kept.
    """
    if not np.array_equal(np.sort(before), np.sort(stream)):
        return None
    return abs(rank_correlation(stream, before))
