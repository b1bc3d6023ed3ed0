"""Confidence intervals from a few rounds, without a statistics library.

The round (a fresh process) is the unit of replication: batches inside one process share its
luck, so that pooling them would give intervals far too narrow (Georges, Buytaert, Eeckhout,
"Statistically rigorous Java performance evaluation", OOPSLA 2007; Kalibera, Jones, "Rigorous
benchmarking in reasonable time", ISMM 2013).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean, stdev
from typing import Literal

from skymark.model.metric import Figure

CONFIDENCE = 0.95


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


@lru_cache(maxsize=256)
def student_quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """Return t such that Student's distribution has this much probability in [-t, t].

    Solves the finite sums for whole degrees of freedom (Abramowitz, Stegun, "Handbook of
    Mathematical Functions", 26.7.3 and 26.7.4) by bisection; correct to 1e-9.

    Raises:
        ValueError: fewer than one degree of freedom.
    """
    if degrees < 1:
        raise ValueError(f"Student's distribution needs a degree of freedom, not {degrees}")
    low, high = 0.0, 1.0
    while student_probability(high, degrees) < confidence:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if student_probability(middle, degrees) < confidence:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def student_probability(t: float, degrees: int) -> float:
    """Return the probability of [-t, t] under Student's distribution.

    Source: Abramowitz, Stegun, 26.7.3 (odd degrees) and 26.7.4 (even).
    """
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    total = 0.0
    for power in range(2 + odd, degrees + 1, 2):
        total += term
        term *= cosine * cosine * (power - 1) / power
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
