"""Places in a series at which its level changes: steps, and the stairs that a drift makes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from statistics import median

from skymark.model.metric import Metric
from skymark.statistics.difference import PRACTICAL, difference

SHORTEST = 2
"""Values of a level: one alone is an outlier, and no level."""

PENALTY = 4.0
"""Of a change, in logarithms of the series' length: more than Schwarz's criterion asks for
a place and a level (Yao, "Estimating the number of change-points via Schwarz' criterion",
Statistics & Probability Letters 6, 1988), as the noise is estimated, too."""

NORMAL_MAD = 0.6745
"""Median of the absolute value of a standard normal variable."""


def change_points(
    values: Sequence[float], metric: Metric, practical: float = PRACTICAL
) -> tuple[int, ...]:
    """Return the places of the first values after each change, in order.

    The series is parted so that the squares within parts, over the variance of its noise, and a
    penalty per change are least (Jackson et al., "An algorithm for optimal partitioning of data on
    an interval", IEEE Signal Processing Letters 12, 2005). A change counts if `difference` shows it
    between the two levels, and beyond the margin.

    Args:
        values: in the order of time, one per run.
        metric: its scale.
        practical: smallest relative difference that counts.
    """
    logarithmic = metric.scale != "linear" and min(values, default=0.0) > 0
    numbers = [math.log(one) for one in values] if logarithmic else list(values)
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
    """Return the inner bounds of the parting that costs least, by dynamic programming."""
    count = len(numbers)
    if count < 2 * SHORTEST:
        return []
    sums = list(accumulate(numbers, initial=0.0))
    squares = list(accumulate((one * one for one in numbers), initial=0.0))
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
