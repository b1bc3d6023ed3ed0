"""Two sets of rounds on a metric's scale: the change of their means, and its standard error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from skymark.model.metric import Metric
from skymark.statistics.student import CONFIDENCE, student_p_value, student_quantile


@dataclass(frozen=True)
class Contrast:
    """A candidate's mean less a reference's, on the metric's scale."""

    change: float
    margin: float
    """The smallest change that counts."""
    centre: float | None
    """The reference's mean on the linear scale; null on the logarithmic one."""
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

    def half_width(self, confidence: float = CONFIDENCE) -> float | None:
        """Return half the width of the change's interval, or None where a side has one round."""
        found = self.error_after()
        return None if found is None else student_quantile(found[1], confidence) * found[0]

    @property
    def p_value(self) -> float | None:
        """The probability of such a change, or a larger one, by chance alone (Welch's test)."""
        found = self.error_after()
        if found is None:
            return None
        error, degrees = found
        if error == 0:
            return 0.0 if self.change else 1.0
        return student_p_value(self.change / error, degrees)


def contrast(
    candidate: Sequence[float], reference: Sequence[float], metric: Metric, practical: float
) -> Contrast:
    """Return the contrast of a metric's values, one per round.

    On the log scale only where every value has a logarithm, as intervals are.
    """
    logarithmic = metric.scale == "log" and min(candidate) > 0 and min(reference) > 0
    ours, theirs = (
        [math.log(value) for value in side] if logarithmic else side
        for side in (candidate, reference)
    )
    centre = None if logarithmic else fmean(theirs)
    return Contrast(
        change=fmean(ours) - fmean(theirs),
        margin=math.log1p(practical) if centre is None else practical * abs(centre),
        centre=centre,
        counts=(len(ours), len(theirs)),
        variances=(_variance(ours), _variance(theirs)) if min(len(ours), len(theirs)) > 1 else None,
    )


def _variance(values: Sequence[float]) -> float:
    """Return the sample variance in floats; `statistics.variance` reckons in fractions."""
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
