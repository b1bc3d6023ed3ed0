"""What most libraries did alike between two runs, beside which one of them has to stand out.

Two runs lie hours apart. What became of the machine meanwhile is in every cell of the later one,
and no interval over the rounds of one run tells of it. The cells of the other libraries do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from skymark.statistics.contrast import Contrast
from skymark.statistics.student import CONFIDENCE, student_quantile

LEAST = 5
"""Libraries whose median is known well enough to hold another one against it."""

DEVIATION = 1.4826
"""Standard deviation over median absolute deviation, of normal values (Rousseeuw and Croux,
"Alternatives to the median absolute deviation", Journal of the American Statistical Association 88,
1993)."""


@dataclass(frozen=True)
class CommonChange:
    """The median change of several libraries, on the metric's scale, with its standard error."""

    change: float
    error: float
    degrees: float

    def half_width(self, confidence: float = CONFIDENCE) -> float:
        """Return half the width of the change's interval."""
        return student_quantile(self.degrees, confidence) * self.error

    @property
    def is_shown(self) -> bool:
        """Whether its 95 % interval is without 0."""
        return abs(self.change) > self.half_width()


def common_change(changes: Sequence[float]) -> CommonChange | None:
    """Return what libraries have in common; None where there are fewer than `LEAST`.

    A median, so that a library which did change weighs no more than any other; its standard error
    is that of normal values, whose spread is taken from the median absolute deviation.

    Args:
        changes: one per library.
    """
    if len(changes) < LEAST:
        return None
    middle = median(changes)
    spread = DEVIATION * median(abs(one - middle) for one in changes)
    error = math.sqrt(math.pi / 2 / len(changes)) * spread
    return CommonChange(middle, error, len(changes) - 1.0)


@dataclass(frozen=True)
class BesideOthers(Contrast):
    """A contrast less what the other libraries have in common."""

    own: Contrast
    others: CommonChange

    def error_after(self, more: int = 0) -> tuple[float, float] | None:
        """Return the change's standard error and its degrees of freedom (Welch's).

        Args:
            more: rounds that each side gets besides; they tell nothing more of the others.
        """
        found = self.own.error_after(more)
        if found is None:
            return None
        parts = (found, (self.others.error, self.others.degrees))
        total = sum(error**2 for error, _ in parts)
        spread = sum(error**4 / degrees for error, degrees in parts)
        return math.sqrt(total), total**2 / spread if spread else found[1]


def beside(own: Contrast, others: CommonChange) -> BesideOthers:
    """Return a contrast less what other libraries have in common with it."""
    return BesideOthers(own.change - others.change, own.margin, own.centre, own, others)
