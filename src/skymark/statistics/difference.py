"""Verdict on two sets of rounds: better, worse, no difference, or too little data to say.

Also the orders in a ranking in which some pairs are statistically tied.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from skymark.model.base import Frozen
from skymark.model.effort import Effort
from skymark.model.metric import Figure, Metric
from skymark.model.record import Round, Stop
from skymark.statistics.interval import (
    CONFIDENCE,
    sample_variance,
    student_p_value,
    student_quantile,
)


@dataclass(frozen=True)
class Contrast(ABC):
    """Candidate's mean minus the reference's, on the metric's scale."""

    change: float
    margin: float
    """The smallest change that counts."""
    centre: float | None
    """The reference's mean on the linear scale; null on the logarithmic one."""

    @abstractmethod
    def error_after(self, more: int = 0) -> tuple[float, float] | None:
        """Return the change's standard error and its degrees of freedom.

        Args:
            more: additional rounds per side, of the same variance.

        Returns:
            None if a side has one round, so the spread is unknown.
        """

    def half_width(self, confidence: float = CONFIDENCE) -> float | None:
        """Return the half-width of the change's interval; None if it is unknown."""
        known = self.error_after()
        return None if known is None else student_quantile(known[1], confidence) * known[0]

    @property
    def p_value(self) -> float | None:
        """Probability of a change of this size or larger by chance alone."""
        known = self.error_after()
        if known is None:
            return None
        error, degrees = known
        if error == 0:
            return 0.0 if self.change else 1.0
        return student_p_value(self.change / error, degrees)


@dataclass(frozen=True)
class UnpairedContrast(Contrast):
    """Contrast of two independent sets of rounds."""

    counts: tuple[int, int]
    variances: tuple[float, float] | None
    """Variance of each side's rounds; null if a side has only one round."""

    def error_after(self, more: int = 0) -> tuple[float, float] | None:
        """Return the change's standard error and its degrees of freedom.

        They are Welch's ("The generalization of Student's problem when several different population
        variances are involved", Biometrika 34, 1947).

        Args:
            more: additional rounds per side, of the same variance.
        """
        if self.variances is None:
            return None
        counts = [count + more for count in self.counts]
        parts = [variance / count for variance, count in zip(self.variances, counts, strict=True)]
        total = sum(parts)
        spread = sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
        # The squares of tiny numbers vanish.
        return math.sqrt(total), total**2 / spread if spread else min(counts) - 1.0


@dataclass(frozen=True)
class PairedContrast(Contrast):
    """Contrast of rounds that were measured in pairs."""

    count: int
    """Pairs."""
    variance: float | None
    """Variance of the differences within pairs; null if there is only one pair."""

    def error_after(self, more: int = 0) -> tuple[float, float] | None:
        """Return the change's standard error and its degrees of freedom, Student's over pairs.

        A disturbance of both rounds of a pair, such as a slower machine, cancels out in the
        differences (Student, "The probable error of a mean", Biometrika 6, 1908).

        Args:
            more: additional pairs, of the same variance.
        """
        if self.variance is None:
            return None
        count = self.count + more
        return math.sqrt(self.variance / count), count - 1.0


def contrast(
    candidate: Sequence[float], reference: Sequence[float], metric: Metric, practical: float
) -> UnpairedContrast:
    """Return the contrast of a metric's values, one per round.

    The log scale applies only if every value has a logarithm, as for intervals.
    """
    ours, theirs, centre = _on_scale(candidate, reference, metric)
    return UnpairedContrast(
        change=fmean(ours) - fmean(theirs),
        margin=_margin(centre, practical),
        centre=centre,
        counts=(len(ours), len(theirs)),
        variances=(sample_variance(ours), sample_variance(theirs))
        if min(len(ours), len(theirs)) > 1
        else None,
    )


def paired_contrast(
    candidate: Sequence[float], reference: Sequence[float], metric: Metric, practical: float
) -> PairedContrast:
    """Return the contrast of a metric's values, one per pair on each side, in the same order.

    On the log scale each pair gives the logarithm of its ratio.
    """
    ours, theirs, centre = _on_scale(candidate, reference, metric)
    differences = [value - partner for value, partner in zip(ours, theirs, strict=True)]
    return PairedContrast(
        change=fmean(differences),
        margin=_margin(centre, practical),
        centre=centre,
        count=len(differences),
        variance=sample_variance(differences) if len(differences) > 1 else None,
    )


def _on_scale(
    candidate: Sequence[float], reference: Sequence[float], metric: Metric
) -> tuple[Sequence[float], Sequence[float], float | None]:
    """Return both sides on the metric's scale, and the reference's mean on the linear one."""
    if metric.scale == "log" and min(candidate) > 0 and min(reference) > 0:
        return (
            [math.log(value) for value in candidate],
            [math.log(value) for value in reference],
            None,
        )
    return candidate, reference, fmean(reference)


def _margin(centre: float | None, practical: float) -> float:
    return math.log1p(practical) if centre is None else practical * abs(centre)


PRACTICAL = 0.05
"""Smallest relative difference that counts, unless the caller has another."""

PAIRED_PRACTICAL = 0.02
"""Smallest relative difference that counts in pairs of rounds, which resolve smaller ones."""

LARGEST_LOG = 700.0
"""Larger logarithms of a ratio overflow a float."""


class Verdict(StrEnum):
    """Verdict on a candidate. Tables show the metric's own words for better and worse."""

    BETTER = "better"
    WORSE = "worse"
    NO_DIFFERENCE = "no difference"
    INCONCLUSIVE = "inconclusive"


REAL = frozenset({Verdict.BETTER, Verdict.WORSE})
"""Verdicts that two sides differ."""


class Difference(Frozen):
    """Comparison of a candidate's values with a reference's."""

    ratio: Figure | None
    """The candidate's mean over the reference's with its 95 % interval; null if that is zero."""
    verdict: Verdict
    p_value: float | None = None
    """Probability of a ratio at least this far from 1 by chance alone; null without an interval.
    The test is Welch's, or Student's for rounds in pairs. The larger value of two tests counts."""
    corrected_p_value: float | None = None
    """The p-value corrected for the number of comparisons; null without a correction."""

    @property
    def is_real(self) -> bool:
        """Whether the two sides differ significantly."""
        return self.verdict in REAL


def difference(
    candidate: Sequence[float],
    reference: Sequence[float],
    metric: Metric,
    practical: float = PRACTICAL,
    confidence: float = CONFIDENCE,
) -> Difference:
    """Compare a metric's values of two cells, one per round.

    The interval is Welch's on the metric's scale (Biometrika 34, 1947; see `UnpairedContrast`). On
    the linear scale it is relative to the reference's mean. *Better* and *worse* need both: an
    interval that excludes 1, and a ratio beyond the practical margin. *No difference* needs proof
    as well: an interval within the margin. All else, including a single round, is *inconclusive*.

    An `exact` metric does not vary, so it has no interval and no margin.

    Args:
        candidate: one value per round.
        reference: the reference's values, one per round.
        metric: its scale, and whether higher or lower is better.
        practical: the margin; 0.05 means ratios between 1/1.05 and 1.05 do not matter.
        confidence: of the interval.

    Raises:
        ValueError: a side has no round.
    """
    _refuse_empty(candidate, reference)
    if metric.scale == "exact":
        return _exact(candidate[-1], reference[-1], metric)
    return difference_of(contrast(candidate, reference, metric, practical), metric, confidence)


def agreed(result: Difference, other: Contrast, metric: Metric) -> Difference:
    """Make a difference inconclusive unless another contrast has the same verdict.

    Both tests have to reject, so the larger p-value counts (Berger, "Multiparameter hypothesis
    testing and acceptance sampling", Technometrics 24, 1982).
    """
    verdict = verdict_of(other, metric)
    known = [p_value for p_value in (result.p_value, other.p_value) if p_value is not None]
    return result.model_copy(
        update={
            "verdict": result.verdict if verdict is result.verdict else Verdict.INCONCLUSIVE,
            "p_value": max(known, default=None),
        }
    )


def difference_of(contrast: Contrast, metric: Metric, confidence: float = CONFIDENCE) -> Difference:
    """Return the difference that a contrast of a varying metric shows."""
    change, half = contrast.change, contrast.half_width(confidence)
    return Difference(
        ratio=ratio_of(change, half, contrast.centre),
        verdict=verdict_on(change, half, contrast.margin, metric),
        p_value=contrast.p_value,
    )


def ratio_of(change: float, half: float | None, centre: float | None) -> Figure | None:
    """Return a change as a ratio with its interval; None if it has none.

    Args:
        change: on the metric's scale.
        half: half-width of its interval; None if it is unknown.
        centre: the reference's mean on the linear scale; None on the logarithmic one.
    """
    places = (change,) if half is None else (change, change - half, change + half)
    if centre is None:
        return _figure([math.exp(min(place, LARGEST_LOG)) for place in places])
    return _figure([1 + place / centre for place in places] if centre else [])


def is_shown(candidate: Sequence[float], reference: Sequence[float], metric: Metric) -> bool:
    """Return whether the `difference` of two cells is real, in a third of its time."""
    _refuse_empty(candidate, reference)
    if metric.scale == "exact":
        return candidate[-1] != reference[-1]
    result = contrast(candidate, reference, metric, PRACTICAL)
    return verdict_of(result, metric) in REAL


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
    # A negative reference swaps the ends.
    return Figure(value=value, low=min(ends, default=None), high=max(ends, default=None))


def verdict_of(contrast: Contrast, metric: Metric) -> Verdict:
    """Return the verdict of a contrast at 95 % confidence."""
    return verdict_on(contrast.change, contrast.half_width(), contrast.margin, metric)


def verdict_on(change: float, half: float | None, margin: float, metric: Metric) -> Verdict:
    """Return the verdict on a change with half the width of its interval; None is unknown."""
    if half is None:
        return Verdict.INCONCLUSIVE
    if abs(change) > half and abs(change) >= margin:
        return _direction(change, metric)
    if abs(change) + half < margin or change == half == 0:
        return Verdict.NO_DIFFERENCE
    return Verdict.INCONCLUSIVE


def _direction(change: float, metric: Metric) -> Verdict:
    return Verdict.BETTER if (change > 0) == (metric.better == "higher") else Verdict.WORSE


ERROR = 1 - CONFIDENCE
"""Probability that any verdict of better or worse in a comparison is false."""


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number, in their order, so that one level fits all.

    Holm's step-down procedure bounds the probability of any false rejection, however the tests
    depend on each other. Source: Holm, "A simple sequentially rejective multiple test procedure",
    Scandinavian Journal of Statistics 6, 1979. The false discovery rate, which scipy has, would let
    a gate over every cell fail by chance more often, the more cells really changed.
    """
    adjusted, least = [0.0] * len(p_values), 0.0
    for step, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, p_values[place] * (len(p_values) - step)))
        adjusted[place] = least
    return adjusted


def corrected(differences: Sequence[Difference]) -> list[Difference]:
    """Correct differences so that any better or worse among them is false with 5 % probability.

    Differences that lose significance become inconclusive. Exact metrics keep their verdicts and do
    not count as comparisons. *No difference* keeps its verdict, too: it has its own proof.
    """
    tested = [(result, result.p_value) for result in differences if result.p_value is not None]
    adjusted = iter(holm([p_value for _, p_value in tested]))
    return [
        result if result.p_value is None else _corrected(result, next(adjusted))
        for result in differences
    ]


def confidence_of_next(differences: Sequence[Difference]) -> float:
    """Return the confidence that the next corrected difference needs to be significant."""
    left = sum(result.p_value is not None and not result.is_real for result in differences)
    return 1 - ERROR / max(left, 1)


def _corrected(result: Difference, p_value: float) -> Difference:
    lost = result.is_real and p_value > ERROR
    verdict = Verdict.INCONCLUSIVE if lost else result.verdict
    return result.model_copy(update={"verdict": verdict, "corrected_p_value": p_value})


def paired_values(
    candidate: Sequence[Round], baseline: Sequence[Round], name: str
) -> tuple[list[float], list[float]]:
    """Return a metric's values of two sides, pair by pair.

    Rounds with the same number are a pair. A round without a partner, after a killed run, is
    dropped, as is a pair in which a round lacks the metric.
    """
    ours, theirs = _by_number(candidate, name), _by_number(baseline, name)
    numbers = [number for number in ours if number in theirs]
    return [ours[number] for number in numbers], [theirs[number] for number in numbers]


def pair_count(candidate: Sequence[Round], baseline: Sequence[Round]) -> int:
    """Return the number of pairs of two sides."""
    return len({round.round for round in candidate} & {round.round for round in baseline})


def enough_pairs(
    candidate: Sequence[Round], baseline: Sequence[Round], metric: Metric, effort: Effort
) -> Stop | None:
    """Return the rule that ends the pairs of a cell; None if it needs another pair.

    Pairs end once the interval of the ratio is as narrow as the effort's target. The effort bounds
    their number.
    """
    ours, theirs = paired_values(candidate, baseline, metric.name)
    count = pair_count(candidate, baseline)
    if count >= effort.max_rounds:
        return Stop.ROUNDS
    if count < max(effort.min_rounds, 1) or len(ours) < count:
        return None
    ratio = paired_contrast(ours, theirs, metric, PAIRED_PRACTICAL)
    half = ratio.half_width()
    scale = 1.0 if ratio.centre is None else abs(ratio.centre)
    is_narrow = half is not None and half <= effort.target_relative_interval * scale
    return Stop.INTERVAL if is_narrow else None


def _by_number(rounds: Sequence[Round], name: str) -> Mapping[int, float]:
    return {round.round: round.metrics[name] for round in rounds if name in round.metrics}


@dataclass(frozen=True)
class PlaceRange:
    """Orders that an item may have, and its group.

    The range counts significantly better and worse items, pair by pair (Goldstein, Spiegelhalter,
    "League tables and their limitations", Journal of the Royal Statistical Society A 159, 1996).
    """

    first: int
    """One more than the number of significantly better items."""
    last: int
    """The number of items minus the significantly worse items."""
    group: int
    """Counts from 0. Each item of a group is significantly better than each item of the next."""


def places_of(count: int, is_shown: Callable[[int, int], bool]) -> list[PlaceRange]:
    """Return the order ranges of items sorted by their means, the best first.

    Groups are as small as possible while every pair of items from two groups differs significantly.

    Args:
        count: number of items.
        is_shown: whether the first of two items, the better by its mean, is significantly better.
    """
    better, worse = [0] * count, [0] * count
    reach = list(range(count))
    """For each item, the last item that is not significantly worse."""
    for item in range(count):
        for other in range(item + 1, count):
            if is_shown(item, other):
                better[other] += 1
                worse[item] += 1
            else:
                reach[item] = other
    places, group, furthest = [], -1, -1
    for item in range(count):
        group += item > furthest
        furthest = max(furthest, reach[item])
        places.append(PlaceRange(better[item] + 1, count - worse[item], group))
    return places
