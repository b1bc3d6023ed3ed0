"""Drive a loader as usual, and measure the shuffle of its epochs."""

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
    """Measure and verify one round; its figures describe the order of all elements."""
    outcome, (first, *measured) = epochs.measured(bench)
    outcome.extra |= shuffle_figures(first, measured, bench.job.batch_size)
    if bench.round == 0:
        epochs.check_seed(bench, first)
    return outcome


def shuffle_figures(first: Pass, measured: Sequence[Pass], batch_size: int) -> dict[str, float]:
    """Return the means over measured epochs; empty if no epoch ran to its end.

    Args:
        first: the previous epoch, to compare the first measured epoch with.
        measured: the measured epochs; stopped epochs do not count.
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
    """Return the share of an order that the next order keeps, 0 to 1; None for other elements.

    A reversed order counts as an unchanged order.
    """
    if not np.array_equal(np.sort(before), np.sort(stream)):
        return None
    return abs(rank_correlation(stream, before))
