"""Places of which not every pair's order is known."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from skymark.statistics.difference import PlaceRange as Place
from skymark.statistics.difference import places_of


def places(count: int, hidden: set[tuple[int, int]]) -> list[Place]:
    """Places where the order of some pairs is not shown."""
    return places_of(count, lambda one, other: (one, other) not in hidden)


def test_where_every_order_is_shown_each_has_a_place_and_a_group_of_its_own():
    assert places(3, set()) == [Place(1, 1, 0), Place(2, 2, 1), Place(3, 3, 2)]


def test_two_that_cannot_be_told_apart_share_their_places():
    assert places(4, {(1, 2)}) == [
        Place(1, 1, 0),
        Place(2, 3, 1),
        Place(2, 3, 1),
        Place(4, 4, 2),
    ]


def test_what_is_shown_within_a_group_narrows_its_places():
    # The middle one is like both others, of which one is shown to be better.
    assert places(3, {(0, 1), (1, 2)}) == [
        Place(1, 2, 0),
        Place(1, 3, 0),
        Place(2, 3, 0),
    ]


def test_one_of_which_little_is_known_joins_all_between():
    # The last is shown to be worse than the second, but not than the first, which varies.
    assert places(3, {(0, 2)}) == [Place(1, 2, 0), Place(2, 2, 0), Place(2, 3, 0)]


def test_nothing_has_no_places():
    assert places(0, set()) == []


@given(st.integers(1, 7), st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6))))
def test_groups_part_just_where_every_order_across_is_shown(count, hidden):
    found = places(count, hidden)
    for own, after in pairwise(range(count)):
        across = [(one, other) for one in range(after) for other in range(after, count)]
        parted = found[own].group != found[after].group
        assert parted == hidden.isdisjoint(across)
    assert all(1 <= one.first <= one.last <= count for one in found)
