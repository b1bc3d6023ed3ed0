"""Whether one set of rounds is faster than another: yes, no, or too little data to say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from statistics import fmean

from skymark.model.base import Frozen
from skymark.model.record import Estimate
from skymark.statistics.interval import student_quantile

PRACTICAL = 0.05
"""Smallest relative difference that counts, unless the caller has another."""


class Verdict(StrEnum):
    """What can be said of a candidate beside a reference."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference"
    INCONCLUSIVE = "inconclusive"


class Difference(Frozen):
    """The candidate's rate over the reference's, with its 95 % interval, and what follows."""

    ratio: Estimate
    verdict: Verdict


def difference(
    candidate: Sequence[float], reference: Sequence[float], practical: float = PRACTICAL
) -> Difference:
    """Compare the per-round rates of two cells.

    The interval of the ratio is Welch's on the log scale, its degrees of freedom rounded down
    (Welch, "The generalization of Student's problem when several different population variances
    are involved", Biometrika 34, 1947). *Faster* and *slower* need both: an interval without 1,
    and a ratio beyond the practical margin. *No difference* needs proof as well: an interval
    wholly within the margin. All else, a single round included, is *inconclusive*.

    Args:
        candidate: positive rates, one per round.
        reference: the same of what it is compared with.
        practical: the margin; 0.05 means ratios between 1/1.05 and 1.05 do not matter.

    Raises:
        ValueError: a side has no round.
    """
    if not candidate or not reference:
        raise ValueError("a comparison needs at least one round on each side")
    theirs, ours = [math.log(x) for x in reference], [math.log(x) for x in candidate]
    change = fmean(ours) - fmean(theirs)
    half = _half_width(ours, theirs)
    if half is None:
        return Difference(ratio=Estimate(value=math.exp(change)), verdict=Verdict.INCONCLUSIVE)
    ratio = Estimate(
        value=math.exp(change), low=math.exp(change - half), high=math.exp(change + half)
    )
    return Difference(ratio=ratio, verdict=_verdict(change, half, math.log1p(practical)))


def _half_width(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    if min(len(ours), len(theirs)) < 2:
        return None
    parts = [_variance(side) / len(side) for side in (ours, theirs)]
    total = sum(parts)
    if total == 0:
        return 0.0
    shares = zip(parts, (ours, theirs), strict=True)
    degrees = total**2 / sum(part**2 / (len(side) - 1) for part, side in shares)
    return student_quantile(max(1, math.floor(degrees))) * math.sqrt(total)


def _variance(values: Sequence[float]) -> float:
    """Return the sample variance in floats; `statistics.variance` reckons in fractions."""
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _verdict(change: float, half: float, margin: float) -> Verdict:
    if abs(change) > half and abs(change) >= margin:
        return Verdict.FASTER if change > 0 else Verdict.SLOWER
    if abs(change) + half < margin:
        return Verdict.NO_DIFFERENCE
    return Verdict.INCONCLUSIVE
