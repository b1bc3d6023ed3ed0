"""Verdict on two sets of rounds: better, worse, no difference, or too little data to say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

from skymark.model.base import Frozen
from skymark.model.metric import Figure, Metric
from skymark.statistics.contrast import Contrast, contrast, paired_contrast
from skymark.statistics.student import CONFIDENCE

PRACTICAL = 0.05
"""Smallest relative difference that counts, unless the caller has another."""

PAIRED_PRACTICAL = 0.02
"""The same where rounds were measured in pairs, which tell smaller differences apart."""

LARGEST_LOG = 700.0
"""A ratio beyond this is no float any more."""


class Verdict(StrEnum):
    """A candidate beside a reference. Tables show the metric's own words for better and worse."""

    BETTER = "better"
    WORSE = "worse"
    NO_DIFFERENCE = "no difference"
    INCONCLUSIVE = "inconclusive"


REAL = frozenset({Verdict.BETTER, Verdict.WORSE})
"""Verdicts that two sides differ."""


class Difference(Frozen):
    """A candidate's values beside a reference's, and what follows."""

    ratio: Figure | None
    """The candidate's mean over the reference's with its 95 % interval; null if that is zero."""
    verdict: Verdict
    p_value: float | None = None
    """Probability of such a ratio, or one further from 1, by chance alone (Welch's test, or
    Student's where rounds are in pairs; the larger one, where it is held against other cells, too);
    null without an interval."""
    corrected_p_value: float | None = None
    """The same, enlarged for the number of comparisons; null where nobody corrected it."""

    @property
    def is_real(self) -> bool:
        """Whether it is shown that the two differ."""
        return self.verdict in REAL


def difference(
    candidate: Sequence[float],
    reference: Sequence[float],
    metric: Metric,
    practical: float = PRACTICAL,
    confidence: float = CONFIDENCE,
) -> Difference:
    """Compare a metric's values of two cells, one per round.

    The interval is Welch's on the metric's scale (Welch, "The generalization of Student's problem
    when several different population variances are involved", Biometrika 34, 1947); on the linear
    scale it is given relative to the reference's mean. *Better* and *worse* need both: an interval
    without 1, and a ratio beyond the practical margin. *No difference* needs proof as well: an
    interval wholly within the margin. All else, a single round included, is *inconclusive*.

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
    _refuse_empty(candidate, reference)
    if metric.scale == "exact":
        return _exact(candidate[-1], reference[-1], metric)
    return difference_of(contrast(candidate, reference, metric, practical), metric, confidence)


def paired_difference(
    candidate: Sequence[float],
    reference: Sequence[float],
    metric: Metric,
    practical: float = PAIRED_PRACTICAL,
) -> Difference:
    """Compare a metric's values of two cells, whose rounds were measured in pairs.

    The verdict is that of `difference`, on Student's interval of the mean over pairs.

    Args:
        candidate: one value per pair.
        reference: the same of what it is compared with, in the same order.
        metric: its scale, and whether higher or lower is better.
        practical: the margin.

    Raises:
        ValueError: there is no pair, or a value lacks its other.
    """
    if not candidate:
        raise ValueError("a comparison in pairs needs at least one pair")
    if metric.scale == "exact":
        return _exact(candidate[-1], reference[-1], metric)
    return difference_of(paired_contrast(candidate, reference, metric, practical), metric)


def agreed(found: Difference, other: Contrast, metric: Metric) -> Difference:
    """Return a difference with its verdict where another contrast has the same, else inconclusive.

    Both tests have to reject, so the larger p-value counts (Berger, "Multiparameter hypothesis
    testing and acceptance sampling", Technometrics 24, 1982).
    """
    verdict = verdict_of(other, metric)
    known = [one for one in (found.p_value, other.p_value) if one is not None]
    return found.model_copy(
        update={
            "verdict": found.verdict if verdict is found.verdict else Verdict.INCONCLUSIVE,
            "p_value": max(known, default=None),
        }
    )


def difference_of(found: Contrast, metric: Metric, confidence: float = CONFIDENCE) -> Difference:
    """Return what a contrast says of a metric that varies."""
    change, half = found.change, found.half_width(confidence)
    places = (change,) if half is None else (change, change - half, change + half)
    if found.centre is None:
        ratios = [math.exp(min(place, LARGEST_LOG)) for place in places]
    else:
        ratios = [1 + place / found.centre for place in places] if found.centre else []
    return Difference(
        ratio=_figure(ratios),
        verdict=_verdict(change, half, found.margin, metric),
        p_value=found.p_value,
    )


def is_shown(candidate: Sequence[float], reference: Sequence[float], metric: Metric) -> bool:
    """Say whether the `difference` of two cells is real, in a third of its time."""
    _refuse_empty(candidate, reference)
    if metric.scale == "exact":
        return candidate[-1] != reference[-1]
    found = contrast(candidate, reference, metric, PRACTICAL)
    return _verdict(found.change, found.half_width(), found.margin, metric) in REAL


def _refuse_empty(candidate: Sequence[float], reference: Sequence[float]) -> None:
    if not candidate or not reference:
        raise ValueError("a comparison needs at least one round on each side")


def _exact(candidate: float, reference: float, metric: Metric) -> Difference:
    if candidate == reference:
        return Difference(ratio=Figure(value=1.0), verdict=Verdict.NO_DIFFERENCE)
    return Difference(
        ratio=_figure([candidate / reference] if reference else []),
        verdict=_direction(candidate - reference, metric),
    )


def _figure(ratios: Sequence[float]) -> Figure | None:
    if not ratios or not all(map(math.isfinite, ratios)):
        return None
    value, *ends = ratios
    # A negative reference turns the ends round.
    return Figure(value=value, low=min(ends, default=None), high=max(ends, default=None))


def verdict_of(found: Contrast, metric: Metric) -> Verdict:
    """Return what a contrast shows at 95 %."""
    return _verdict(found.change, found.half_width(), found.margin, metric)


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
