"""Verdict on two sets of rounds: better, worse, no difference, or too little data to say."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from skymark.model.base import Frozen
from skymark.model.effort import Effort
from skymark.model.metric import Figure, Metric
from skymark.model.record import Round, Stop
from skymark.statistics.interval import CONFIDENCE, student_p_value, student_quantile


@dataclass(frozen=True)
class Contrast(ABC):
    """A candidate's mean less a reference's, on the metric's scale."""

    change: float
    margin: float
    """The smallest change that counts."""
    centre: float | None
    """The reference's mean on the linear scale; null on the logarithmic one."""

    @abstractmethod
    def error_after(self, more: int = 0) -> tuple[float, float] | None:
        """Return the change's standard error and its degrees of freedom.

        Args:
            more: rounds that each side gets besides, of the same variance.

        Returns:
            None where one round leaves the spread unknown.
        """

    def half_width(self, confidence: float = CONFIDENCE) -> float | None:
        """Return half the width of the change's interval, or None where it is unknown."""
        found = self.error_after()
        return None if found is None else student_quantile(found[1], confidence) * found[0]

    @property
    def p_value(self) -> float | None:
        """The probability of such a change, or a larger one, by chance alone."""
        found = self.error_after()
        if found is None:
            return None
        error, degrees = found
        if error == 0:
            return 0.0 if self.change else 1.0
        return student_p_value(self.change / error, degrees)


@dataclass(frozen=True)
class UnpairedContrast(Contrast):
    """A contrast of two sets of rounds that have nothing to do with each other."""

    counts: tuple[int, int]
    variances: tuple[float, float] | None
    """Of each side's rounds; null where a side has one round only."""

    def error_after(self, more: int = 0) -> tuple[float, float] | None:
        """Return the change's standard error and its degrees of freedom.

        They are Welch's ("The generalization of Student's problem when several different population
        variances are involved", Biometrika 34, 1947).

        Args:
            more: rounds that each side gets besides, of the same variance.
        """
        if self.variances is None:
            return None
        counts = [count + more for count in self.counts]
        parts = [one / count for one, count in zip(self.variances, counts, strict=True)]
        total = sum(parts)
        spread = sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
        # The squares of tiny numbers vanish.
        return math.sqrt(total), total**2 / spread if spread else min(counts) - 1.0


@dataclass(frozen=True)
class PairedContrast(Contrast):
    """A contrast of rounds of which each was measured beside one of the other side."""

    count: int
    """Pairs."""
    variance: float | None
    """Of the differences within pairs; null where there is one pair only."""

    def error_after(self, more: int = 0) -> tuple[float, float] | None:
        """Return the change's standard error and its degrees of freedom, Student's over pairs.

        What disturbs both rounds of a pair alike, such as a machine that gets slower, is in none of
        the differences (Student, "The probable error of a mean", Biometrika 6, 1908).

        Args:
            more: pairs that are measured besides, of the same variance.
        """
        if self.variance is None:
            return None
        count = self.count + more
        return math.sqrt(self.variance / count), count - 1.0


def contrast(
    candidate: Sequence[float], reference: Sequence[float], metric: Metric, practical: float
) -> UnpairedContrast:
    """Return the contrast of a metric's values, one per round.

    On the log scale only where every value has a logarithm, as intervals are.
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
    differences = [one - other for one, other in zip(ours, theirs, strict=True)]
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
        return [math.log(one) for one in candidate], [math.log(one) for one in reference], None
    return candidate, reference, fmean(reference)


def _margin(centre: float | None, practical: float) -> float:
    return math.log1p(practical) if centre is None else practical * abs(centre)


def sample_variance(values: Sequence[float]) -> float:
    """Return the sample variance in floats; `statistics.variance` reckons in fractions."""
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


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


def paired_values(
    candidate: Sequence[Round], baseline: Sequence[Round], name: str
) -> tuple[list[float], list[float]]:
    """Return a metric's values of two sides, pair by pair.

    Rounds of one number are a pair. One that lacks its other, because a run was killed between the
    two, is left out, as is a pair of which a round lacks the metric.
    """
    ours, theirs = _by_number(candidate, name), _by_number(baseline, name)
    numbers = [number for number in ours if number in theirs]
    return [ours[number] for number in numbers], [theirs[number] for number in numbers]


def pair_count(candidate: Sequence[Round], baseline: Sequence[Round]) -> int:
    """Return the number of pairs of two sides."""
    return len({one.round for one in candidate} & {one.round for one in baseline})


def enough_pairs(
    candidate: Sequence[Round], baseline: Sequence[Round], metric: Metric, effort: Effort
) -> Stop | None:
    """Return the rule that ends the pairs of a cell; None where another one is to be measured.

    They go on from the effort's least rounds until the interval of the ratio is as narrow as the
    effort asks of a figure, or there are the effort's most.
    """
    ours, theirs = paired_values(candidate, baseline, metric.name)
    count = pair_count(candidate, baseline)
    if count >= effort.max_rounds:
        return Stop.ROUNDS
    if count < max(effort.min_rounds, 1) or len(ours) < count:
        return None
    found = paired_contrast(ours, theirs, metric, PAIRED_PRACTICAL)
    half = found.half_width()
    scale = 1.0 if found.centre is None else abs(found.centre)
    is_narrow = half is not None and half <= effort.target_relative_interval * scale
    return Stop.INTERVAL if is_narrow else None


def _by_number(rounds: Sequence[Round], name: str) -> Mapping[int, float]:
    return {one.round: one.metrics[name] for one in rounds if name in one.metrics}
