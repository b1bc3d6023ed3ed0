"""Warnings of this suite's own: percentiles of few batches, and a warm-up that did not suffice."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from skymark.model.record import RoundResult, StabilityWarning
from skymark.statistics.stability import PRACTICAL
from skymark.suites.loading.figures import FIRST_MEASURED_EPOCH, measured_waits

FEWEST_WAITS = 100
"""With fewer, the 99th percentile is the maximum."""


def warnings_of(rounds: Sequence[RoundResult]) -> tuple[StabilityWarning, ...]:
    """Return what makes waits and warm-up of these rounds doubtful; empty if nothing does."""
    found = (few_waits(rounds), unfinished_warm_up(rounds))
    return tuple(warning for warning in found if warning is not None)


def few_waits(rounds: Sequence[RoundResult]) -> StabilityWarning | None:
    """Warn of percentiles that rest on too few batches."""
    count = len(measured_waits(rounds))
    if count == 0 or count >= FEWEST_WAITS:
        return None
    return StabilityWarning(
        kind="few-waits",
        message=f"the wait percentiles rest on {count} batches, so p99 is the longest wait",
        action="choose a larger variant (such as :medium), smaller batches or a higher --effort",
    )


def unfinished_warm_up(rounds: Sequence[RoundResult]) -> StabilityWarning | None:
    """Warn of a first measured epoch that is slower than the later ones in every round."""
    ratios: list[float] = []
    for one in rounds:
        times = _epoch_times(one)
        if len(times) < 4:
            return None
        ratios.append(times[0] / median(times[1:]))
    if len(ratios) < 3 or min(ratios) < 1 + 2 * PRACTICAL:
        return None
    return StabilityWarning(
        kind="warm-up",
        message=(
            f"in every round the first measured epoch took {median(ratios) - 1:.0%} longer "
            "than the later ones: the library was still warming up"
        ),
        action="a higher --effort measures more epochs, which weakens the effect",
    )


def _epoch_times(round: RoundResult) -> list[float]:
    """Return the mean wait per element of each complete measured epoch, in order, in ns."""
    waits: dict[float, float] = {}
    elements: dict[float, float] = {}
    columns = (round.samples[name] for name in ("wait_ns", "elements", "epoch"))
    for wait, size, epoch in zip(*columns, strict=True):
        if epoch >= FIRST_MEASURED_EPOCH:
            waits[epoch] = waits.get(epoch, 0) + wait
            elements[epoch] = elements.get(epoch, 0) + size
    return [waits[epoch] / elements[epoch] for epoch in sorted(waits) if elements[epoch]]
