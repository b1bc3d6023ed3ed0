"""Verdict on two sets of rounds: better, worse, no difference, or too little data to say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from statistics import fmean

from skymark.model.base import Frozen
from skymark.model.metric import Figure, Metric
from skymark.statistics.interval import CONFIDENCE, student_quantile

PRACTICAL = 0.05
"""Smallest relative difference that counts, unless the caller has another."""

LARGEST_LOG = 700.0
"""A ratio beyond this is no float any more."""


class Verdict(StrEnum):
    """A candidate beside a reference. Tables show the metric's own words for better and worse."""

    BETTER = "better"
    WORSE = "worse"
    NO_DIFFERENCE = "no difference"
    INCONCLUSIVE = "inconclusive"


class Difference(Frozen):
    """A candidate's values beside a reference's, and what follows."""

    ratio: Figure | None
    """The candidate's mean over the reference's with its 95 % interval; null if that is zero."""
    verdict: Verdict

    @property
    def is_real(self) -> bool:
        """Whether it is shown that the two differ."""
        return self.verdict in {Verdict.BETTER, Verdict.WORSE}


def difference(
    candidate: Sequence[float],
    reference: Sequence[float],
    metric: Metric,
    practical: float = PRACTICAL,
    confidence: float = CONFIDENCE,
) -> Difference:
    """Compare a metric's values of two cells, one per round.

    The interval is Welch's on the metric's scale, its degrees of freedom rounded down (Welch, "The
    generalization of Student's problem when several different population variances are involved",
    Biometrika 34, 1947); on the linear scale it is given relative to the reference's mean. *Better*
    and *worse* need both: an interval without 1, and a ratio beyond the practical margin. *No
    difference* needs proof as well: an interval wholly within the margin. All else, a single round
    included, is *inconclusive*.

    What does not vary (`exact`) has no interval and no margin: it is equal, better or worse.

    Args:
        candidate: one value per round.
        reference: the same of what it is compared with.
        metric: its scale, and whether higher or lower is better.
        practical: the margin; 0.05 means ratios between 1/1.05 and 1.05 do not matter.
        confidence: of the interval, where another one than 95 % is wanted.

    Raises:
        ValueError: a side has no round.
    """
    if not candidate or not reference:
        raise ValueError("a comparison needs at least one round on each side")
    if metric.scale == "exact":
        return _exact(candidate[-1], reference[-1], metric)
    # As intervals do: the log scale only where every value has a logarithm.
    if metric.scale == "log" and min(candidate) > 0 and min(reference) > 0:
        ours, theirs = [math.log(x) for x in candidate], [math.log(x) for x in reference]
        change, half = fmean(ours) - fmean(theirs), _half_width(ours, theirs, confidence)
        bounds = [math.exp(min(x, LARGEST_LOG)) for x in _places(change, half)]
        return Difference(
            ratio=_figure(bounds), verdict=_verdict(change, half, math.log1p(practical), metric)
        )
    centre = fmean(reference)
    change, half = fmean(candidate) - centre, _half_width(candidate, reference, confidence)
    bounds = [1 + x / centre for x in _places(change, half)] if centre else []
    return Difference(
        ratio=_figure(bounds), verdict=_verdict(change, half, practical * abs(centre), metric)
    )


def _exact(candidate: float, reference: float, metric: Metric) -> Difference:
    if candidate == reference:
        return Difference(ratio=Figure(value=1.0), verdict=Verdict.NO_DIFFERENCE)
    return Difference(
        ratio=_figure([candidate / reference] if reference else []),
        verdict=_direction(candidate - reference, metric),
    )


def _places(change: float, half: float | None) -> tuple[float, ...]:
    """Return the middle of an interval and, where it is known, its ends."""
    return (change,) if half is None else (change, change - half, change + half)


def _figure(ratios: Sequence[float]) -> Figure | None:
    if not ratios or not all(map(math.isfinite, ratios)):
        return None
    value, *ends = ratios
    # A negative reference turns the ends round.
    return Figure(value=value, low=min(ends, default=None), high=max(ends, default=None))


def _half_width(ours: Sequence[float], theirs: Sequence[float], confidence: float) -> float | None:
    if min(len(ours), len(theirs)) < 2:
        return None
    parts = [_variance(side) / len(side) for side in (ours, theirs)]
    total = sum(parts)
    if total == 0:
        return 0.0
    shares = zip(parts, (ours, theirs), strict=True)
    spread = sum(part**2 / (len(side) - 1) for part, side in shares)
    degrees = total**2 / spread if spread else 1.0  # the squares of tiny numbers vanish
    return student_quantile(max(1, math.floor(degrees)), confidence) * math.sqrt(total)


def _variance(values: Sequence[float]) -> float:
    """Return the sample variance in floats; `statistics.variance` reckons in fractions."""
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _verdict(change: float, half: float | None, margin: float, metric: Metric) -> Verdict:
    if half is None:
        return Verdict.INCONCLUSIVE
    if abs(change) > half and abs(change) >= margin:
        return _direction(change, metric)
    if abs(change) + half < margin or change == half == 0:
        return Verdict.NO_DIFFERENCE
    return Verdict.INCONCLUSIVE


def _direction(change: float, metric: Metric) -> Verdict:
    return Verdict.BETTER if (change > 0) == (metric.better == "higher") else Verdict.WORSE
