"""Power of a comparison: the effects that can be detected, and the rounds that it lacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from skymark.model.base import Frozen
from skymark.statistics.difference import Contrast, UnpairedContrast, sample_variance
from skymark.statistics.interval import CONFIDENCE, student_quantile

POWER = 0.8
"""Probability of a verdict that rounds are enough for (Cohen, "Statistical power analysis for the
behavioral sciences", 1988)."""

MOST_ROUNDS = 1024
"""More rounds than anybody adds to each side."""

NORMAL = NormalDist()


def probability_of_verdict(found: Contrast, more: int, confidence: float = CONFIDENCE) -> float:
    """Return the probability that more rounds on each side lead to a verdict.

    The true change and the spread are taken to be those that were seen. A verdict is either a
    change that is shown and beyond the margin, or one that is shown to be within it: its 95 %
    interval makes two one-sided tests (Schuirmann, "A comparison of the two one-sided tests
    procedure and the power approach", Journal of Pharmacokinetics and Biopharmaceutics 15, 1987).

    Args:
        found: the contrast; with a spread.
        more: rounds that each side gets besides.
        confidence: of the interval that has to be without a change of 0; higher where there are
            many comparisons.

    Raises:
        ValueError: a side has one round, so nothing is known of its spread.
    """
    known = found.error_after(more)
    if known is None:
        raise ValueError("a single round tells nothing of the spread between rounds")
    error, degrees = known
    change = abs(found.change)
    if error == 0:
        return 1.0
    least = max(student_quantile(degrees, confidence) * error, found.margin)
    most = found.margin - student_quantile(degrees) * error
    shown = NORMAL.cdf((change - least) / error) + NORMAL.cdf((-change - least) / error)
    if most <= 0:
        return shown
    return shown + NORMAL.cdf((most - change) / error) - NORMAL.cdf((-most - change) / error)


def rounds_to_verdict(found: Contrast, confidence: float = CONFIDENCE) -> int | None:
    """Return how many more rounds each side needs for a verdict with 80 % probability.

    They are found by doubling and halving.

    Returns:
        At least 1; None where 1,024 would not do, as with a change at the margin itself, or where a
        side has one round.
    """
    if found.error_after(1) is None:
        return None
    enough = 1
    while probability_of_verdict(found, enough, confidence) < POWER:
        enough *= 2
        if enough > MOST_ROUNDS:
            return None
    few = enough // 2
    while enough - few > 1:
        middle = (few + enough) // 2
        if probability_of_verdict(found, middle, confidence) < POWER:
            few = middle
        else:
            enough = middle
    return enough


EFFECTS = (0.01, 0.02, 0.05, 0.10, 0.20)
"""Relative changes that people ask about."""


class Detection(Frozen):
    """An effect, and the rounds that show it with 80 % probability."""

    effect: float
    """A relative change; 0.05 is 5 %."""
    rounds: int | None
    """Of each of the two sides; None where a thousand would not do."""
    measured_s: float | None
    """Time of the rounds of both sides."""


def detections(
    rounds: Sequence[float], round_s: float, effects: Sequence[float] = EFFECTS
) -> tuple[Detection, ...]:
    """Return the rounds that each effect takes, if rounds vary by the machine alone.

    Args:
        rounds: the time of the same work in each of several rounds; positive.
        round_s: the length of a round.
        effects: relative changes.

    Raises:
        ValueError: there is one round or none.
    """
    if len(rounds) < 2:
        raise ValueError("the spread between rounds needs two of them")
    variance = sample_variance([math.log(one) for one in rounds])
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
