"""Power of a comparison: detectable effects, and the rounds that a verdict still needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from skymark.model.base import Frozen
from skymark.statistics.difference import Contrast, UnpairedContrast
from skymark.statistics.interval import CONFIDENCE, sample_variance, student_quantile

POWER = 0.8
"""Probability of a verdict that counts as enough (Cohen, "Statistical power analysis for the
behavioral sciences", 1988)."""

MOST_ROUNDS = 1024
"""Largest number of additional rounds per side that is considered."""

NORMAL = NormalDist()


def probability_of_verdict(contrast: Contrast, more: int, confidence: float = CONFIDENCE) -> float:
    """Return the probability that more rounds on each side lead to a verdict.

    The observed change and spread are assumed to be true. A verdict is a significant change beyond
    the margin, or a change that is significantly within it. The 95 % interval of the latter makes
    two one-sided tests (Schuirmann, "A comparison of the two one-sided tests procedure and the
    power approach", Journal of Pharmacokinetics and Biopharmaceutics 15, 1987).

    Args:
        contrast: with a known spread.
        more: additional rounds per side.
        confidence: of the interval that must exclude 0; higher for many comparisons.

    Raises:
        ValueError: a side has one round, so its spread is unknown.
    """
    known = contrast.error_after(more)
    if known is None:
        raise ValueError("a single round tells nothing of the spread between rounds")
    error, degrees = known
    change = abs(contrast.change)
    if error == 0:
        return 1.0
    least = max(student_quantile(degrees, confidence) * error, contrast.margin)
    most = contrast.margin - student_quantile(degrees) * error
    shown = NORMAL.cdf((change - least) / error) + NORMAL.cdf((-change - least) / error)
    if most <= 0:
        return shown
    return shown + NORMAL.cdf((most - change) / error) - NORMAL.cdf((-most - change) / error)


def rounds_to_verdict(contrast: Contrast, confidence: float = CONFIDENCE) -> int | None:
    """Return the additional rounds per side for a verdict with 80 % probability.

    Returns:
        At least 1. None if a side has one round, or if 1,024 are too few, as for a change at the
        margin itself.
    """
    if contrast.error_after(1) is None:
        return None
    enough = 1
    while probability_of_verdict(contrast, enough, confidence) < POWER:
        enough *= 2
        if enough > MOST_ROUNDS:
            return None
    few = enough // 2
    while enough - few > 1:
        middle = (few + enough) // 2
        if probability_of_verdict(contrast, middle, confidence) < POWER:
            few = middle
        else:
            enough = middle
    return enough


EFFECTS = (0.01, 0.02, 0.05, 0.10, 0.20)
"""Default relative changes."""


class Detection(Frozen):
    """Effect, and the rounds that show it with 80 % probability."""

    effect: float
    """A relative change; 0.05 is 5 %."""
    rounds: int | None
    """Rounds per side; None if a thousand are too few."""
    measured_s: float | None
    """Time of the rounds of both sides."""


def detections(
    rounds: Sequence[float], round_s: float, effects: Sequence[float] = EFFECTS
) -> tuple[Detection, ...]:
    """Return the rounds that each effect takes, if only the machine makes rounds vary.

    Args:
        rounds: the time of the same work in each of several rounds; positive.
        round_s: the length of a round.
        effects: relative changes.

    Raises:
        ValueError: there is one round or none.
    """
    if len(rounds) < 2:
        raise ValueError("the spread between rounds needs two of them")
    variance = sample_variance([math.log(time_s) for time_s in rounds])
    return tuple(_detection(effect, variance, round_s) for effect in effects)


def _detection(effect: float, variance: float, round_s: float) -> Detection:
    begun = UnpairedContrast(
        change=math.log1p(effect),
        margin=0.0,
        centre=None,
        counts=(1, 1),
        variances=(variance, variance),
    )
    more = rounds_to_verdict(begun)
    if more is None:
        return Detection(effect=effect, rounds=None, measured_s=None)
    rounds = 1 + more
    return Detection(effect=effect, rounds=rounds, measured_s=2 * rounds * round_s)
