"""Rounds that a comparison lacks: its power, by the change and the spread that were seen."""

from __future__ import annotations

from statistics import NormalDist

from skymark.statistics.contrast import Contrast
from skymark.statistics.student import CONFIDENCE, student_quantile

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
