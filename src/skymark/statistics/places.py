"""Places in a ranking of which not every pair's order is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class PlaceRange:
    """The places that one of several may have, and its group.

    The range counts those shown to be better and those shown to be worse, pair by pair (Goldstein,
    Spiegelhalter, "League tables and their limitations", Journal of the Royal Statistical Society
    A 159, 1996).
    """

    first: int
    """One more than are shown to be better."""
    last: int
    """All but those that are shown to be worse."""
    group: int
    """Counts from 0. Each of a group is shown to be better than each of the next."""


def places_of(count: int, is_shown: Callable[[int, int], bool]) -> list[PlaceRange]:
    """Return the places of things that are in the order of their means, the best first.

    A group is as small as it can be for the order of groups to be shown in every pair. Within one,
    not every pair's order is.

    Args:
        count: how many there are.
        is_shown: whether the first of two, the better by its mean, is shown to be better.
    """
    better, worse = [0] * count, [0] * count
    reach = list(range(count))
    """The last one that each is not shown to be better than."""
    for one in range(count):
        for other in range(one + 1, count):
            if is_shown(one, other):
                better[other] += 1
                worse[one] += 1
            else:
                reach[one] = other
    places, group, furthest = [], -1, -1
    for one in range(count):
        group += one > furthest
        furthest = max(furthest, reach[one])
        places.append(PlaceRange(better[one] + 1, count - worse[one], group))
    return places
