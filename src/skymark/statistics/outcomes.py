"""Intervals and paired tests of figures that are means over the elements of a data set.

Two models that scored the same images differ by the images on which their outcomes differ, which
tells more than two separate intervals.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from skymark.model.metric import Figure, Metric
from skymark.statistics.difference import (
    PAIRED_PRACTICAL,
    REAL,
    Difference,
    PairedContrast,
    Verdict,
    difference_of,
    ratio_of,
    verdict_on,
)
from skymark.statistics.interval import CONFIDENCE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Outcomes = NDArray[Any]
    """Each element's part of a figure, in the data set's order; their mean is the figure."""


NORMAL_QUANTILE = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


def interval_of(value: float, outcomes: Outcomes) -> Figure:
    """Return a figure with its 95 % interval over elements.

    For outcomes of 0 and 1 it is Wilson's ("Probable inference, the law of succession, and
    statistical inference", Journal of the American Statistical Association 22, 1927). For others
    it is the normal one, whose standard error is the ideal bootstrap's of a mean (Efron, "Bootstrap
    methods: another look at the jackknife", Annals of Statistics 7, 1979).

    Args:
        value: the figure, which is the outcomes' mean up to rounding.
        outcomes: of shape (elements,).
    """
    count = len(outcomes)
    z = NORMAL_QUANTILE
    if count < 2:
        return Figure(value=value)
    if not is_binary(outcomes):
        half = z * float(outcomes.std(ddof=1)) / math.sqrt(count)
        return Figure(value=value, low=value - half, high=value + half)
    share = float(outcomes.mean())
    scale = 1 + z**2 / count
    centre = (share + z**2 / (2 * count)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    low = 0.0 if share == 0 else centre - half  # exactly; centre and half round apart
    high = 1.0 if share == 1 else centre + half
    return Figure(value=value, low=low, high=high)


def is_binary(outcomes: Outcomes) -> bool:
    """Whether all outcomes are 0 or 1."""
    return bool(((outcomes == 0) | (outcomes == 1)).all())


def difference_in_outcomes(
    candidate: Outcomes,
    reference: Outcomes,
    metric: Metric,
    practical: float = PAIRED_PRACTICAL,
) -> Difference:
    """Compare a figure of two cells on the same elements.

    *Better* and *worse* need a significant paired test and a change beyond the margin. *No
    difference* needs an interval within the margin. The test is McNemar's for outcomes of 0 and 1,
    else the paired bootstrap's of a mean.

    Args:
        candidate: of shape (elements,).
        reference: likewise, for the same elements in the same order.
        metric: says whether higher or lower is better.
        practical: smallest relative difference that counts.

    Raises:
        ValueError: the two have different numbers of elements, or fewer than two.
    """
    if len(candidate) != len(reference) or len(reference) < 2:
        raise ValueError(f"{len(candidate)} and {len(reference)} elements are no pairs")
    changes = candidate - reference
    centre = float(reference.mean())
    found = difference_of(
        PairedContrast(
            change=float(changes.mean()),
            margin=practical * abs(centre),
            centre=centre,
            count=len(changes),
            variance=float(changes.var(ddof=1)),
        ),
        metric,
    )
    if not (is_binary(candidate) and is_binary(reference)):
        return found
    p_value = mcnemar_p_value(int((changes > 0).sum()), int((changes < 0).sum()))
    lost = found.verdict in REAL and p_value > 1 - CONFIDENCE
    verdict = Verdict.INCONCLUSIVE if lost else found.verdict
    return found.model_copy(update={"p_value": p_value, "verdict": verdict})


def mcnemar_p_value(won: int, lost: int) -> float:
    """Return the mid-p value of McNemar's exact test.

    Source: Fagerland, Lydersen, Laake, "The McNemar test for binary matched-pairs data: mid-p and
    asymptotic are better than exact conditional", BMC Medical Research Methodology 13, 2013.

    Args:
        won: elements that only the candidate has right.
        lost: elements that only the reference has right.
    """
    from scipy.special import bdtr, gammaln

    total, fewer = won + lost, min(won, lost)
    if total == 0:
        return 1.0
    at = math.exp(
        float(gammaln(total + 1) - gammaln(fewer + 1) - gammaln(total - fewer + 1))
        - total * math.log(2)
    )
    if won == lost:
        return 1.0 - at
    return float(2 * bdtr(fewer, total, 0.5)) - at


def apart(candidate: Figure, reference: Figure, metric: Metric, practical: float) -> Difference:
    """Compare two figures by their intervals over elements, without the elements.

    The error of the change is that of independent samples, which is too large for the same
    elements: a verdict holds, and more of them stay inconclusive.
    """
    from scipy.special import ndtr

    change = candidate.value - reference.value
    widths = [
        None if one.low is None or one.high is None else (one.high - one.low) / 2
        for one in (candidate, reference)
    ]
    known = [width for width in widths if width is not None]
    if len(known) < len(widths):
        verdict = Verdict.INCONCLUSIVE if change else Verdict.NO_DIFFERENCE
        return Difference(ratio=ratio_of(change, None, reference.value), verdict=verdict)
    half = math.hypot(*known)
    z = NORMAL_QUANTILE
    return Difference(
        ratio=ratio_of(change, half, reference.value),
        verdict=verdict_on(change, half, practical * abs(reference.value), metric),
        p_value=float(2 * ndtr(-abs(change) / half * z)) if half else float(change == 0),
    )
