"""Confidence intervals from a few rounds.

The round (a fresh process) is the unit of replication: batches inside one process share its
luck, so that pooling them would give intervals far too narrow (Georges, Buytaert, Eeckhout,
"Statistically rigorous Java performance evaluation", OOPSLA 2007; Kalibera, Jones, "Rigorous
benchmarking in reasonable time", ISMM 2013).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Literal

from skymark.model.metric import Figure
from skymark.statistics.student import student_quantile


def estimate(values: Sequence[float], scale: Literal["log", "linear"] = "log") -> Figure:
    """Return the mean of independent rounds with Student's 95 % interval.

    On the log scale the value is the geometric mean and the interval is symmetric as a ratio:
    rates and times are positive, their disturbances multiply, and speeds are compared by ratio
    (Fleming, Wallace, "How not to lie with statistics", CACM 29(3), 1986). Bounds never reach
    zero. Shares, which may be 0, and differences need the linear scale.

    Args:
        values: one per round; positive on the log scale.
        scale: where the values are taken to be normally distributed.

    Raises:
        ValueError: there is no value, or one that has no logarithm.
    """
    if not values:
        raise ValueError("an estimate needs at least one round")
    numbers = [math.log(value) for value in values] if scale == "log" else list(values)
    back = math.exp if scale == "log" else float
    centre = fmean(numbers)
    if len(numbers) < 2:
        return Figure(value=back(centre))
    half = student_quantile(len(numbers) - 1) * stdev(numbers) / math.sqrt(len(numbers))
    return Figure(value=back(centre), low=back(centre - half), high=back(centre + half))
