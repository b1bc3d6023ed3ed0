"""Warnings about less trustworthy rounds, each with a remedy.

Each check reads only the rounds and stays silent if there is too little data. On rounds that differ
by chance alone, it raises its warning in fewer than 4 of 100 cells (the tests simulate it).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

from skymark.machine.processes import KERNEL_WORK
from skymark.model.effort import Effort
from skymark.model.metric import Metric
from skymark.model.record import Round, StabilityWarning
from skymark.model.sizes import percent
from skymark.statistics.interval import estimate, student_quantile

PRACTICAL = 0.05
"""Smallest relative difference that a warning mentions."""

SHORT_REGION_S = 0.05
"""A timed region below this is shorter than a few time slices of the scheduler."""

OUTLIER_SCORE = 8.0
"""Deviation from the median in robust standard deviations (1.4826 times the median one)."""

LEAST_DEPENDENT = 5
"""Least number of rounds of a cell that say whether rounds depend on the round before."""

DEPENDENT_ERRORS = 3.09
"""Standard errors by which rounds resemble the round before; by chance in one run of a thousand."""

GAP_RATIO = 7.0
"""A gap between two groups of rounds counts if it is this many times the spread within them."""


@dataclass(frozen=True)
class CheckedRounds:
    """Rounds of a cell, and the metric to check."""

    rounds: Sequence[Round]
    effort: Effort
    metric: Metric
    borrowed: float | None = None
    """Variance that the metric's interval borrows; see `skymark.statistics.borrowing`."""

    @cached_property
    def values(self) -> list[float]:
        """The metric in each round; positive."""
        return [round.metrics[self.metric.name] for round in self.rounds]


def warnings_of(
    rounds: Sequence[Round], effort: Effort, metric: Metric
) -> tuple[StabilityWarning, ...]:
    """Return the warnings about a metric of these rounds; empty if there are none.

    An exact metric, or a metric that a round lacks, is not checked.
    """
    if not rounds or metric.scale == "exact":
        return ()
    if any(round.metrics.get(metric.name, 0.0) <= 0 for round in rounds):
        return ()
    seen = CheckedRounds(rounds, effort, metric)
    warnings = (check(seen) for check in CHECKS)
    return tuple(warning for warning in warnings if warning is not None)


class Disturbance(NamedTuple):
    """The processors that others took in disturbed rounds, in words, and the remedy."""

    message: str
    remedy: str


def disturbance(rounds: Iterable[Round], most_share: float = math.inf) -> Disturbance | None:
    """Return what others took in disturbed rounds; None without such a round.

    Args:
        rounds: rounds of any cells.
        most_share: largest share that others may take of a round that sets none.
    """
    known = [round.machine for round in rounds if round.machine is not None]
    taken = [use for use in known if use.is_disturbed(most_share)]
    if not taken:
        return None
    others = median(use.others_cores or 0.0 for use in taken)
    stolen = median(use.stolen_cores or 0.0 for use in taken)
    if others >= stolen:
        names = Counter(use.program for use in taken if use.program is not None)
        most = names.most_common(1)[0][0] if names else None
        who = "other programs" if most is None else f"other programs (mostly {most})"
        remedy = next((one.remedy for one in KERNEL_WORK if one.words == most), "stop them")
    else:
        who = "other machines on the host"
        remedy = "measure at another time or on a machine of your own"
    where = f"{len(taken)} of {len(known)} rounds"
    return Disturbance(
        f"{who} took {max(others, stolen):.2g} of {taken[0].cores:g} cores in {where}",
        f"{remedy}, or give the run more --time",
    )


def dependent_rounds(cells: Iterable[Sequence[float]]) -> StabilityWarning | None:
    """Warn of rounds that resemble the round before, which makes intervals too narrow.

    One cell has too few rounds to show it, so the cells of a machine are judged together. For each,
    the sum of squared differences of successive rounds over that of the differences from the mean
    has the mean 2 if the order of rounds is by chance, and for normal values a variance of
    4 (n - 2) / (n² - 1). Source: von Neumann, "Distribution of the ratio of the mean square
    successive difference to the variance", Annals of Mathematical Statistics 12(4), 1941.

    Args:
        cells: the values of each cell's rounds in order of time; cells with few rounds, or with
            values that have no logarithm, are ignored.
    """
    missing, variance, count = 0.0, 0.0, 0
    for values in cells:
        rounds = len(values)
        if rounds < LEAST_DEPENDENT or min(values) <= 0:
            continue
        logs = [math.log(value) for value in values]
        centre = fmean(logs)
        squares = math.fsum((log - centre) ** 2 for log in logs)
        if not squares:
            continue
        missing += 2 - math.fsum((after - log) ** 2 for log, after in pairwise(logs)) / squares
        variance += 4 * (rounds - 2) / (rounds**2 - 1)
        count += 1
    if not count or missing <= DEPENDENT_ERRORS * math.sqrt(variance):
        return None
    return StabilityWarning(
        kind="dependent-rounds",
        message=(
            f"rounds resemble the round before in {count} cells (correlation about "
            f"{missing / count / 2:.1f}), so intervals are too narrow"
        ),
        action=(
            "look for heat, a changing load or other machines on the host; more rounds do not "
            "help, and in `run --against` such changes cancel out"
        ),
    )


def no_interval(seen: CheckedRounds) -> StabilityWarning | None:
    """Warn of a single round, whose error is unknown."""
    if len(seen.rounds) > 1:
        return None
    return StabilityWarning(
        kind="no-interval",
        message="one round gives no interval: how far the figures can be off is unknown",
        action="run at least 3 rounds (--effort quick or --rounds 3)",
    )


def wide_interval(seen: CheckedRounds) -> StabilityWarning | None:
    """Warn of a metric known less precisely than the effort asks for."""
    width = estimate(seen.values, "log", seen.borrowed).relative_half_width
    if width is None or width <= seen.effort.target_relative_interval:
        return None
    known = f"is known to ±{percent(width)}" if width <= 1 else "is known to no better than ±100 %"
    return StabilityWarning(
        kind="wide-interval",
        message=(
            f"{seen.metric.heading} {known} after {len(seen.rounds)} rounds; "
            f"{seen.effort.name} effort asks for ±{percent(seen.effort.target_relative_interval)}"
        ),
        action=(
            "run more rounds (--effort standard or rigorous, or a longer --time) with nothing "
            "else running; `skymark doctor` says what disturbs this machine"
        ),
    )


def drift(seen: CheckedRounds) -> StabilityWarning | None:
    """Warn of a metric that rises or falls from round to round, by linear regression."""
    count = len(seen.rounds)
    if count < 5:
        return None
    logs = [math.log(rate) for rate in seen.values]
    middle, centre = (count - 1) / 2, fmean(logs)
    spread = sum((place - middle) ** 2 for place in range(count))
    slope = sum((place - middle) * log for place, log in enumerate(logs)) / spread
    residual = sum((log - centre - slope * (place - middle)) ** 2 for place, log in enumerate(logs))
    error = math.sqrt(residual / (count - 2) / spread)
    change = math.exp(slope * (count - 1)) - 1
    # 99 %: with one test per cell, 95 % would raise a false alarm in every run of twenty cells.
    if abs(slope) <= student_quantile(count - 2, 0.99) * error or abs(change) < PRACTICAL:
        return None
    return StabilityWarning(
        kind="drift",
        message=(
            f"{seen.metric.heading} changed steadily by {percent(change, signed=True)} from the "
            "first round to the last"
        ),
        action=(
            "look for heat, a filling disk or another process; let the machine settle and run again"
        ),
    )


def outliers(seen: CheckedRounds) -> StabilityWarning | None:
    """Warn of single rounds far from the rest.

    Source: the modified z-score of Iglewicz, Hoaglin, "How to detect and handle outliers", 1993,
    with a higher threshold for so few values.
    """
    if len(seen.rounds) < 5:
        return None
    logs = [math.log(rate) for rate in seen.values]
    centre = median(logs)
    spread = 1.4826 * median(abs(log - centre) for log in logs)
    far = [
        round.round
        for round, log in zip(seen.rounds, logs, strict=True)
        if abs(log - centre) > max(OUTLIER_SCORE * spread, math.log1p(PRACTICAL))
    ]
    if not far or len(far) * 3 > len(seen.rounds):
        return None
    return StabilityWarning(
        kind="outlier-rounds",
        message=(
            f"round {', '.join(map(str, far))} is far from the other {len(seen.rounds) - len(far)}"
        ),
        action="something disturbed the machine for a moment; run again with nothing else running",
    )


def two_speeds(seen: CheckedRounds) -> StabilityWarning | None:
    """Warn of rounds that fall in two groups with a gap between: a mean describes neither."""
    if len(seen.rounds) < 6:
        return None
    logs = sorted(math.log(rate) for rate in seen.values)
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
            f"{len(fast)} near {math.exp(fmean(fast)):,.0f} {seen.metric.heading}"
        ),
        action=(
            "fix the clock frequency and the CPU affinity, or look for a periodic job; "
            "read the two groups of rounds apart"
        ),
    )


def short_region(seen: CheckedRounds) -> StabilityWarning | None:
    """Warn of a timed region so short that one interruption shows."""
    shortest = min(round.timed_ns for round in seen.rounds) / 1e9
    if shortest >= SHORT_REGION_S:
        return None
    return StabilityWarning(
        kind="short-region",
        message=f"the shortest round measured only {shortest * 1e3:.1f} ms",
        action="choose a larger variant (such as :medium) or a higher --effort",
    )


CHECKS: tuple[Callable[[CheckedRounds], StabilityWarning | None], ...] = (
    no_interval,
    wide_interval,
    drift,
    outliers,
    two_speeds,
    short_region,
)
