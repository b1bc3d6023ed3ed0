"""Intervals of a few rounds, metrics over all rounds, and the rule for enough rounds.

The round (a fresh process) is the unit of replication. Batches inside one process share its luck,
so pooled batches would give intervals far too narrow. Sources: Georges, Buytaert, Eeckhout,
"Statistically rigorous Java performance evaluation", OOPSLA 2007; Kalibera, Jones, "Rigorous
benchmarking in reasonable time", ISMM 2013.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Literal

from skymark.model.effort import Effort
from skymark.model.metric import Figure, Metric, Scale
from skymark.model.record import Round

CONFIDENCE = 0.95

BORROWED_DEGREES = 2.0
"""Degrees of freedom that a borrowed variance counts as: as much as three rounds of the cell."""


def student_quantile(degrees: float, confidence: float = CONFIDENCE) -> float:
    """Return t such that Student's distribution has this much probability in [-t, t].

    Raises:
        ValueError: fewer than one degree of freedom.
    """
    from scipy.special import stdtrit

    if degrees < 1:
        raise ValueError(f"Student's distribution needs a degree of freedom, not {degrees}")
    return float(stdtrit(degrees, (1 + confidence) / 2))


def student_p_value(t: float, degrees: float) -> float:
    """Return the probability outside [-t, t] under Student's distribution."""
    from scipy.special import stdtr

    return float(2 * stdtr(degrees, -abs(t)))


def sample_variance(values: Sequence[float]) -> float:
    """Return the sample variance in floats; `statistics.variance` reckons in fractions."""
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def estimate(
    values: Sequence[float],
    scale: Literal["log", "linear"] = "log",
    borrowed: float | None = None,
) -> Figure:
    """Return the mean of independent rounds with Student's 95 % interval.

    On the log scale the value is the geometric mean and the interval is symmetric as a ratio. It
    suits rates and times: they are positive, and their disturbances multiply. Bounds never reach
    zero. Shares, which may be 0, and differences need the linear scale. Source: Fleming, Wallace,
    "How not to lie with statistics", CACM 29(3), 1986.

    A borrowed variance is averaged with the rounds' own, weighted by degrees of freedom, which add
    up. Source: the moderated variance of Smyth, "Linear models and empirical Bayes methods for
    assessing differential expression in microarray experiments", Statistical Applications in
    Genetics and Molecular Biology 3(1), 2004.

    Args:
        values: one per round; positive on the log scale.
        scale: the scale on which the values are assumed to be normal.
        borrowed: variance of the rounds of other cells on that scale (`skymark.statistics.
            borrowing`); None to use these rounds alone.

    Raises:
        ValueError: there is no value, or a value has no logarithm.
    """
    if not values:
        raise ValueError("an estimate needs at least one round")
    numbers = [math.log(value) for value in values] if scale == "log" else list(values)
    back = math.exp if scale == "log" else float
    centre = fmean(numbers)
    if len(numbers) < 2:
        return Figure(value=back(centre))
    degrees, variance = len(numbers) - 1.0, sample_variance(numbers)
    if borrowed is not None:
        known = degrees * variance + BORROWED_DEGREES * borrowed
        degrees += BORROWED_DEGREES
        variance = known / degrees
    half = student_quantile(degrees) * math.sqrt(variance / len(numbers))
    return Figure(value=back(centre), low=back(centre - half), high=back(centre + half))


def figures_of(rounds: Sequence[Round], metrics: Iterable[Metric]) -> dict[str, Figure]:
    """Return each metric's mean over rounds with its interval, for metrics that every round has.

    The suite computes pooled metrics itself. Undeclared metrics and metrics of some scenarios are
    read from the rounds that have them.
    """
    figures: dict[str, Figure] = {}
    declared = {metric.name: metric for metric in metrics}
    names = dict.fromkeys((*declared, *(name for round in rounds for name in round.metrics)))
    for name in names:
        metric = declared.get(name)
        values = [round.metrics[name] for round in rounds if name in round.metrics]
        partial = len(values) < len(rounds) and metric is not None and not metric.own
        if not values or partial or (metric is not None and metric.pooled):
            continue
        figures[name] = figure_of(values, metric.scale if metric is not None else "log")
    return figures


def figure_of(values: Sequence[float], scale: Scale, borrowed: float | None = None) -> Figure:
    """Return the mean of values, one per round, with its interval.

    The log scale applies only if every value has a logarithm; a borrowed variance applies only on
    it. An `exact` metric has no interval; its value is the last.
    """
    if scale == "exact":
        return Figure(value=values[-1])
    if scale == "log" and min(values) > 0:
        return estimate(values, "log", borrowed)
    return estimate(values, "linear")


def is_precise_enough(
    rounds: Sequence[Round], metric: Metric, effort: Effort, borrowed: float | None = None
) -> bool:
    """Return whether a metric's interval is narrow enough, or the effort's rounds are used up.

    Stopping at the first narrow interval favours cells with a small spread by luck; a borrowed
    variance corrects it (simulated in docs/reference/evidence.md). An `exact` metric needs one
    round.
    """
    if len(rounds) >= effort.max_rounds or (rounds and metric.scale == "exact"):
        return True
    if len(rounds) < max(effort.min_rounds, 1):
        return False
    values = [round.metrics[metric.name] for round in rounds if metric.name in round.metrics]
    if len(values) < len(rounds):
        return False
    width = figure_of(values, metric.scale, borrowed).relative_half_width
    return width is not None and width <= effort.target_relative_interval
