"""Successive halving as a pure function: who survives, and how much is measured."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from skymark.statistics.allocation import (
    FINALISTS,
    REDUCTION,
    halve,
    lengths_of_rungs,
    rung_sizes,
)


class Bench:
    """Orders that are known, and what was asked of it."""

    def __init__(self, orders):
        self.orders = orders
        self.measured = []

    def __call__(self, rung, candidates):
        self.measured.append(list(candidates))
        return {one: self.orders[one] for one in candidates if self.orders[one] is not None}


@pytest.mark.parametrize("seed", range(40))
def test_without_noise_the_best_candidate_survives_and_no_more_is_measured_than_planned(seed):
    random = Random(seed)
    count = random.randint(1, 300)
    orders = {place: (random.choice((0.0, 1.0)), random.random()) for place in range(count)}
    bench = Bench(orders)
    sizes = rung_sizes(count, 4)
    rungs = halve(list(orders), sizes, bench)
    assert next(iter(rungs[-1])) == min(orders, key=orders.__getitem__)
    assert [len(one) for one in bench.measured] == list(sizes)


@pytest.mark.parametrize("count", range(1, 200, 7))
def test_rungs_shrink_by_a_third_until_few_are_left(count):
    sizes = rung_sizes(count, 4)
    assert sizes[0] == count
    assert len(sizes) <= 4
    for before, after in pairwise(sizes):
        assert after * REDUCTION >= before > FINALISTS
        assert (after - 1) * REDUCTION < before
    assert sizes[-1] <= FINALISTS or len(sizes) == 4


def test_few_candidates_get_the_longest_rounds_at_once():
    assert rung_sizes(3, 4) == (3,)
    assert lengths_of_rungs(1, 4) == (3,)
    assert lengths_of_rungs(3, 4) == (0, 1, 3)
    assert lengths_of_rungs(4, 4) == (0, 1, 2, 3)


def test_with_the_usual_lengths_27_candidates_take_less_than_a_fifth_of_an_exhaustive_sweep():
    seconds = (1 * 1, 1 * 2, 2 * 4, 5 * 8)
    for count in range(27, 300):
        sizes = rung_sizes(count, 4)
        lengths = lengths_of_rungs(len(sizes), 4)
        tuned = sum(size * seconds[one] for size, one in zip(sizes, lengths, strict=True))
        assert tuned <= count * seconds[-1] / 5


def test_what_cannot_be_measured_leaves_its_place_to_no_one_better_and_is_not_tried_again():
    orders = {"a": None, "b": (3.0,), "c": (1.0,), "d": None, "e": (2.0,)}
    bench = Bench(orders)
    rungs = halve(list(orders), (5, 2), bench)
    assert bench.measured == [["a", "b", "c", "d", "e"], ["c", "e"]]
    assert list(rungs[0]) == ["c", "e", "b"]


def test_where_nothing_can_be_measured_it_ends_at_the_first_rung():
    bench = Bench({"a": None, "b": None})
    assert halve(["a", "b"], (2, 1, 1), bench) == [{}]
    assert len(bench.measured) == 1


def test_of_equal_candidates_the_earlier_goes_on():
    bench = Bench(dict.fromkeys("abcd", (1.0,)))
    assert list(halve("abcd", (4, 2), bench)[-1]) == ["a", "b"]
