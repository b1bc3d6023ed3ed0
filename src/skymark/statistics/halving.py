"""Successive halving: many candidates with little time, the best third with more.

K. Jamieson, A. Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization",
AISTATS 2016, with a third in place of a half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

Candidate = TypeVar("Candidate")
Order = tuple[float, ...]
"""The place of a candidate among the others: the smallest is the best."""

REDUCTION = 3
"""One candidate in so many goes on to the next rung."""

FINALISTS = 3
"""With so many or fewer, no rung but the last is worth its time."""


def rung_sizes(candidates: int, rungs: int) -> tuple[int, ...]:
    """Return how many candidates each rung measures, at most.

    Args:
        candidates: at the first rung.
        rungs: so many at most; the last one has more finalists where these are too few.
    """
    sizes = [candidates]
    while sizes[-1] > FINALISTS and len(sizes) < rungs:
        sizes.append(math.ceil(sizes[-1] / REDUCTION))
    return tuple(sizes)


def lengths_of_rungs(rungs: int, lengths: int) -> tuple[int, ...]:
    """Return the place of each rung's length among those that there are, the shortest first.

    The last rung has the longest, for its figures are the ones that are told.
    """
    return (*range(rungs - 1), lengths - 1)


def halve(
    candidates: Sequence[Candidate],
    sizes: Sequence[int],
    measure: Callable[[int, Sequence[Candidate]], Mapping[Candidate, Order]],
) -> list[Mapping[Candidate, Order]]:
    """Measure candidates rung by rung; each rung has the best of the one before.

    Args:
        candidates: hashable; of equal ones in a rung, the earlier is the better.
        sizes: how many each rung measures; see `rung_sizes`.
        measure: told the rung, from 0, and its candidates; returns the order of those that could
            be measured.

    Returns:
        The orders of each rung, the best candidate first. It ends early where none is left.
    """
    found: list[Mapping[Candidate, Order]] = []
    left = list(candidates)
    for rung, size in enumerate(sizes):
        left = left[:size]
        orders = measure(rung, left)
        left = sorted((one for one in left if one in orders), key=orders.__getitem__)
        found.append({one: orders[one] for one in left})
        if not left:
            break
    return found
