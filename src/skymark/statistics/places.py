"""Orders in a ranking in which some pairs are statistically tied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


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
