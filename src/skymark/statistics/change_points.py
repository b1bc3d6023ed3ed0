"""Changes of level in a series, and changes that most libraries share between two runs.

Two runs lie hours apart. A change of the machine in between shifts every cell of the later run. The
intervals of one run do not show this shift, but the cells of other libraries do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import median

from skymark.model.metric import Metric
from skymark.statistics.difference import PRACTICAL, Contrast, difference
from skymark.statistics.interval import CONFIDENCE, student_quantile

SHORTEST = 2
"""Least number of values of a level: a single value is an outlier."""

PENALTY = 4.0
"""Penalty per change, in logarithms of the series' length. Schwarz's criterion asks for less (Yao,
"Estimating the number of change-points via Schwarz' criterion", Statistics & Probability Letters 6,
1988), but here the noise is estimated, too."""

NORMAL_MAD = 0.6745
"""Median of the absolute value of a standard normal variable."""


def change_points(
    values: Sequence[float], metric: Metric, practical: float = PRACTICAL
) -> tuple[int, ...]:
    """Return the indices of the first values after each change, in order.

    The split minimises the squares within parts over the variance of the noise, plus a penalty per
    change (Jackson et al., "An algorithm for optimal partitioning of data on an interval", IEEE
    Signal Processing Letters 12, 2005). A change counts if the `difference` of the two levels is
    significant and beyond the margin.

    Args:
        values: in the order of time, one per run.
        metric: its scale.
        practical: smallest relative difference that counts.
    """
    logarithmic = metric.scale != "linear" and min(values, default=0.0) > 0
    numbers = [math.log(number) for number in values] if logarithmic else list(values)
    bounds = [0, *_best_parting(numbers, _noise_variance(numbers)), len(numbers)]
    levels = [values[begin:end] for begin, end in pairwise(bounds)]
    if metric.scale == "exact":
        metric = metric.model_copy(update={"scale": "linear"})
    return tuple(
        place
        for place, (before, after) in zip(bounds[1:-1], pairwise(levels), strict=True)
        if difference(after, before, metric, practical).is_real
    )


def _noise_variance(numbers: Sequence[float]) -> float:
    """Return the variance of the noise by the median step, which few changes do not move."""
    steps = [abs(after - before) for before, after in pairwise(numbers)]
    return (median(steps) / NORMAL_MAD) ** 2 / 2 if steps else 0.0


def _best_parting(numbers: Sequence[float], variance: float) -> list[int]:
    """Return the inner bounds of the cheapest split, by dynamic programming."""
    count = len(numbers)
    if count < 2 * SHORTEST:
        return []
    sums = list(accumulate(numbers, initial=0.0))
    squares = list(accumulate((number * number for number in numbers), initial=0.0))
    penalty = PENALTY * math.log(count) * variance

    def within(begin: int, end: int) -> float:
        total = sums[end] - sums[begin]
        return max(0.0, squares[end] - squares[begin] - total * total / (end - begin))

    costs, last = [-penalty] + [math.inf] * count, [0] * (count + 1)
    for end in range(SHORTEST, count + 1):
        costs[end], last[end] = min(
            (costs[begin] + within(begin, end) + penalty, begin)
            for begin in (0, *range(SHORTEST, end - SHORTEST + 1))
        )
    bounds, end = [], count
    while (end := last[end]) > 0:
        bounds.append(end)
    return bounds[::-1]


LEAST = 5
"""Least number of libraries for a median that another library can be compared with."""

DEVIATION = 1.4826
"""Standard deviation over median absolute deviation, of normal values (Rousseeuw and Croux,
"Alternatives to the median absolute deviation", Journal of the American Statistical Association 88,
1993)."""


@dataclass(frozen=True)
class CommonChange:
    """The median change of several libraries, on the metric's scale, with its standard error."""

    change: float
    error: float
    degrees: float

    def half_width(self, confidence: float = CONFIDENCE) -> float:
        """Return the half-width of the change's interval."""
        return student_quantile(self.degrees, confidence) * self.error

    @property
    def is_shown(self) -> bool:
        """Whether the 95 % interval excludes 0."""
        return abs(self.change) > self.half_width()


def common_change(changes: Sequence[float]) -> CommonChange | None:
    """Return the median change of libraries; None for fewer than `LEAST`.

    In a median, a library that did change weighs no more than any other. The standard error assumes
    normal values with the spread that the median absolute deviation gives.

    Args:
        changes: one per library.
    """
    if len(changes) < LEAST:
        return None
    middle = median(changes)
    spread = DEVIATION * median(abs(change - middle) for change in changes)
    error = math.sqrt(math.pi / 2 / len(changes)) * spread
    return CommonChange(middle, error, len(changes) - 1.0)


@dataclass(frozen=True)
class BesideOthers(Contrast):
    """Contrast minus the common change of other libraries."""

    own: Contrast
    others: CommonChange

    def error_after(self, more: int = 0) -> tuple[float, float] | None:
        """Return the change's standard error and its degrees of freedom (Welch's).

        Args:
            more: additional rounds per side; they do not narrow the common change.
        """
        own = self.own.error_after(more)
        if own is None:
            return None
        parts = (own, (self.others.error, self.others.degrees))
        total = sum(error**2 for error, _ in parts)
        spread = sum(error**4 / degrees for error, degrees in parts)
        return math.sqrt(total), total**2 / spread if spread else own[1]


def beside(own: Contrast, others: CommonChange) -> BesideOthers:
    """Subtract the common change of other libraries from a contrast."""
    return BesideOthers(own.change - others.change, own.margin, own.centre, own, others)
