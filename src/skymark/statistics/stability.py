"""What makes a cell's numbers less trustworthy, each with what to do about it.

Each check looks at the rounds alone and says nothing where there is too little data to tell.
On rounds that differ by chance only, each raises its warning in fewer than 4 of 100 cells (see
the tests, which simulate it).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING

from skymark.model.record import RoundResult, StabilityWarning
from skymark.statistics.interval import estimate, student_quantile

if TYPE_CHECKING:
    from skymark.model.effort import Effort

PRACTICAL = 0.05
"""Smallest relative difference worth a word."""

SHORT_REGION_S = 0.05
"""A timed region below this is shorter than a few time slices of the scheduler."""

FEWEST_WAITS = 100
"""With fewer, the 99th percentile is the maximum."""

OUTLIER_SCORE = 8.0
"""Deviation from the median in robust standard deviations (1.4826 times the median one)."""

GAP_RATIO = 7.0
"""A gap between two groups of rounds counts if it is this many times the spread within them."""

Check = Callable[[Sequence[RoundResult], "Effort"], StabilityWarning | None]


def warnings_of(rounds: Sequence[RoundResult], effort: Effort) -> tuple[StabilityWarning, ...]:
    """Return what makes the figures of these rounds unsafe; empty if nothing does."""
    if not rounds:
        return ()
    found = (check(rounds, effort) for check in CHECKS)
    return tuple(warning for warning in found if warning is not None)


def no_interval(rounds: Sequence[RoundResult], effort: Effort) -> StabilityWarning | None:
    """Warn of a single round, whose error nobody knows."""
    del effort
    if len(rounds) > 1:
        return None
    return StabilityWarning(
        kind="no-interval",
        message="one round gives no interval: how far the figures can be off is unknown",
        action="run at least 3 rounds (--effort quick or --rounds 3)",
    )


def wide_interval(rounds: Sequence[RoundResult], effort: Effort) -> StabilityWarning | None:
    """Warn of a throughput known less precisely than the effort asks for."""
    width = estimate(_rates(rounds)).relative_half_width
    if width is None or width <= effort.target_relative_interval:
        return None
    return StabilityWarning(
        kind="wide-interval",
        message=(
            f"samples/s is known to ±{width:.0%} after {len(rounds)} rounds; "
            f"{effort.name} effort asks for ±{effort.target_relative_interval:.0%}"
        ),
        action=(
            "run more rounds (--effort standard or rigorous) with nothing else running; "
            "`skymark doctor` says what disturbs this machine"
        ),
    )


def drift(rounds: Sequence[RoundResult], effort: Effort) -> StabilityWarning | None:
    """Warn of a throughput that rises or falls from round to round, by linear regression."""
    del effort
    count = len(rounds)
    if count < 5:
        return None
    logs = [math.log(rate) for rate in _rates(rounds)]
    middle, centre = (count - 1) / 2, fmean(logs)
    spread = sum((place - middle) ** 2 for place in range(count))
    slope = sum((place - middle) * log for place, log in enumerate(logs)) / spread
    residual = sum((log - centre - slope * (place - middle)) ** 2 for place, log in enumerate(logs))
    error = math.sqrt(residual / (count - 2) / spread)
    change = math.exp(slope * (count - 1)) - 1
    # 99 %: with one test per cell, 5 % would cry wolf in every run of twenty cells.
    if abs(slope) <= student_quantile(count - 2, 0.99) * error or abs(change) < PRACTICAL:
        return None
    return StabilityWarning(
        kind="drift",
        message=f"samples/s changed steadily by {change:+.0%} from the first round to the last",
        action=(
            "look for heat, a filling disk or another process; let the machine settle and run again"
        ),
    )


def outliers(rounds: Sequence[RoundResult], effort: Effort) -> StabilityWarning | None:
    """Warn of single rounds far from the others.

    Source: the modified z-score of Iglewicz, Hoaglin, "How to detect and handle outliers", 1993,
    with a higher threshold for so few values.
    """
    del effort
    if len(rounds) < 5:
        return None
    logs = [math.log(rate) for rate in _rates(rounds)]
    centre = median(logs)
    spread = 1.4826 * median(abs(log - centre) for log in logs)
    far = [
        one.round
        for one, log in zip(rounds, logs, strict=True)
        if abs(log - centre) > max(OUTLIER_SCORE * spread, math.log1p(PRACTICAL))
    ]
    if not far or len(far) * 3 > len(rounds):
        return None
    return StabilityWarning(
        kind="outlier-rounds",
        message=f"round {', '.join(map(str, far))} is far from the other {len(rounds) - len(far)}",
        action="something disturbed the machine for a moment; run again with nothing else running",
    )


def two_speeds(rounds: Sequence[RoundResult], effort: Effort) -> StabilityWarning | None:
    """Warn of rounds that fall in two groups with a gap between: a mean describes neither."""
    del effort
    if len(rounds) < 6:
        return None
    logs = sorted(math.log(rate) for rate in _rates(rounds))
    gaps = [(after - before, place) for place, (before, after) in enumerate(pairwise(logs))]
    gap, place = max(gaps[1:-1])
    slow, fast = logs[: place + 1], logs[place + 1 :]
    within = (slow[-1] - slow[0] + fast[-1] - fast[0]) / (len(logs) - 2)
    if gap < max(GAP_RATIO * within, math.log1p(PRACTICAL)):
        return None
    return StabilityWarning(
        kind="bimodal",
        message=(
            f"rounds have two speeds: {len(slow)} near {math.exp(fmean(slow)):,.0f} and "
            f"{len(fast)} near {math.exp(fmean(fast)):,.0f} samples/s"
        ),
        action=(
            "fix the clock frequency and the CPU affinity, or look for a periodic job; "
            "read the two groups of rounds apart"
        ),
    )


def short_region(rounds: Sequence[RoundResult], effort: Effort) -> StabilityWarning | None:
    """Warn of a timed region so short that one interruption shows."""
    del effort
    shortest = min(one.timed_ns for one in rounds) / 1e9
    if shortest >= SHORT_REGION_S:
        return None
    return StabilityWarning(
        kind="short-region",
        message=f"the shortest round measured only {shortest * 1e3:.1f} ms",
        action="choose a larger variant (such as :medium) or a higher --effort",
    )


def few_waits(rounds: Sequence[RoundResult], effort: Effort) -> StabilityWarning | None:
    """Warn of percentiles that rest on too few batches."""
    del effort
    count = sum(epoch >= one.warmup_epochs for one in rounds for epoch in one.epoch)
    if count == 0 or count >= FEWEST_WAITS:
        return None
    return StabilityWarning(
        kind="few-waits",
        message=f"the wait percentiles rest on {count} batches, so p99 is the longest wait",
        action="choose a larger variant (such as :medium), smaller batches or a higher --effort",
    )


def unfinished_warm_up(rounds: Sequence[RoundResult], effort: Effort) -> StabilityWarning | None:
    """Warn of a first measured epoch that is slower than the later ones in every round."""
    del effort
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


CHECKS: tuple[Check, ...] = (
    no_interval,
    wide_interval,
    drift,
    outliers,
    two_speeds,
    short_region,
    few_waits,
    unfinished_warm_up,
)


def _rates(rounds: Sequence[RoundResult]) -> list[float]:
    return [one.elements / one.timed_ns * 1e9 for one in rounds]


def _epoch_times(round: RoundResult) -> list[float]:
    """Return the mean wait per element of each complete measured epoch, in order, in ns."""
    waits: dict[int, int] = {}
    elements: dict[int, int] = {}
    for wait, size, epoch in zip(round.wait_ns, round.batch_elements, round.epoch, strict=True):
        if epoch >= round.warmup_epochs:
            waits[epoch] = waits.get(epoch, 0) + wait
            elements[epoch] = elements.get(epoch, 0) + size
    return [waits[epoch] / elements[epoch] for epoch in sorted(waits) if elements[epoch]]
