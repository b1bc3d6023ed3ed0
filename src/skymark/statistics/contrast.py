"""Two sets of rounds on a metric's scale: the change of their means, and its standard error."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from skymark.model.metric import Metric
from skymark.statistics.student import CONFIDENCE, student_p_value, student_quantile


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
