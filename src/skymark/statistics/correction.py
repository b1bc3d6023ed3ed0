"""Correction of verdicts for their number: of many comparisons some differ by chance alone."""

from __future__ import annotations

from collections.abc import Sequence

from skymark.statistics.difference import Difference, Verdict
from skymark.statistics.student import CONFIDENCE

ERROR = 1 - CONFIDENCE
"""Probability that any verdict of better or worse in a comparison is false."""


def holm(p_values: Sequence[float]) -> list[float]:
    """Return each p-value so enlarged that all may be held against one level, in their order.

    Holm's step-down procedure bounds the probability of any false rejection, however the tests
    depend on each other (Holm, "A simple sequentially rejective multiple test procedure",
    Scandinavian Journal of Statistics 6, 1979). The false discovery rate, which scipy has, would
    let a gate that looks at every cell say no by chance more often, the more cells really changed.
    """
    adjusted, least = [0.0] * len(p_values), 0.0
    for step, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, p_values[place] * (len(p_values) - step)))
        adjusted[place] = least
    return adjusted


def corrected(differences: Sequence[Difference]) -> list[Difference]:
    """Return differences of which better and worse are false with 5 % probability, all together.

    One that is not shown any more is inconclusive. What does not vary keeps its verdict and counts
    for none; *no difference* keeps its verdict, too, since its proof is another one.
    """
    tested = [(one, one.p_value) for one in differences if one.p_value is not None]
    adjusted = iter(holm([p_value for _, p_value in tested]))
    return [one if one.p_value is None else _corrected(one, next(adjusted)) for one in differences]


def confidence_of_next(differences: Sequence[Difference]) -> float:
    """Return the confidence that the next of the corrected differences to be shown has to have."""
    left = sum(one.p_value is not None and not one.is_real for one in differences)
    return 1 - ERROR / max(left, 1)


def _corrected(found: Difference, p_value: float) -> Difference:
    lost = found.is_real and p_value > ERROR
    verdict = Verdict.INCONCLUSIVE if lost else found.verdict
    return found.model_copy(update={"verdict": verdict, "corrected_p_value": p_value})
