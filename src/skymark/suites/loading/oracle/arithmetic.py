"""Tolerances that follow from the arithmetic of the work.

What n operations in floating point do to a value is bounded by ``γ(n) = n u / (1 - n u)`` times its
magnitude, u being the unit roundoff (Higham, "Accuracy and stability of numerical algorithms",
2nd edition, 2002, lemma 3.1). Where the work amplifies rounding (the logarithm of a nearly silent
band, a long chain), the reference is computed in single and in double precision as well, and the
distance of the two is the spread that honest work may show around the double one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skymark.suites.loading.oracle.comparison import Difference, Tolerance

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array

UNIT_ROUNDOFF = 2.0**-24
"""Of float32, round to nearest."""

SPREADS = 4.0
"""Distances of single from double precision that other honest work may show: rounding in another
order has the same size, but its worst value lies elsewhere. PC-1 at all depths, folded in float32,
and MM-2 with another transform stay below twice."""


def gamma(operations: int) -> float:
    """Return Higham's bound of the relative error of so many operations in float32."""
    return operations * UNIT_ROUNDOFF / (1 - operations * UNIT_ROUNDOFF)


def magnitude(values: Array) -> float:
    """Return the largest finite absolute value, 0 where there is none."""
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max(initial=0.0))


def tolerance(operations: int, want: Array, spread: Difference | None = None) -> Tolerance:
    """Return the differences that honest work in float32 may show in a field.

    Args:
        operations: roundings that a value goes through.
        want: the reference's values.
        spread: the distance of the reference in single from that in double precision, if known.
    """
    rounding = gamma(operations) * magnitude(want)
    if spread is None:
        return Tolerance(rounding)
    return Tolerance(
        rounding + SPREADS * spread.largest, mean=rounding + SPREADS * spread.worst_mean
    )
