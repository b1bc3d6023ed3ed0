"""Which cells get the next rounds, and why the others get none."""

from __future__ import annotations

from random import Random
from statistics import median, quantiles

import pytest

from skymark.model.metric import Metric
from skymark.model.record import Stop
from skymark.model.sizes import percent
from skymark.statistics.allocation import Allocation, Standing
from tests.timed_bench import (
    ALIKE,
    CHOSEN_ON,
    EFFORT,
    RATE,
    UNLIKE,
    UNSEEN,
    Bench,
    spent_where_it_decides,
    spread_evenly,
)

WAIT = Metric(name="wait", heading="wait", better="lower")
LONG_S = 1e9


def standing(name, *values, contest="TAB-1", round_s=1.0, **more):
    return Standing(name, contest, values, len(values), round_s=round_s, **more)


def around(value, rounds=8, spread=0.01):
    """Values that vary by so much about one, the same each time."""
    return [value * (1 + spread * (-1) ** number) for number in range(rounds)]


def unclear(rounds):
    """Two cells whose rank is open, with so many rounds each."""
    return [standing(name, *around(value, rounds, 0.2)) for name, value in (("a", 100), ("b", 101))]


def next_sweep(*standings, goal="table", left_s=LONG_S, start_s=(), metric=RATE, effort=EFFORT):
    return Allocation(metric, effort, goal).next_sweep(standings, left_s, dict(start_s))


def test_all_get_the_least_rounds_first_whoever_is_ahead():
    sweep = next_sweep(
        standing("few", 10.0, 11.0), standing("unclear", 9, 10, 11), standing("too", 10, 11, 12)
    )
    assert sweep.names == ("few",)


def test_the_least_rounds_are_everybodys_however_many_they_are():
    many = EFFORT.model_copy(update={"min_rounds": 10})
    cells = [standing(str(number), *around(10 * number, 7)) for number in range(1, 13)]
    assert set(next_sweep(*cells, effort=many).names) == {one.name for one in cells}


def test_where_all_is_known_measuring_ends():
    sweep = next_sweep(standing("a", *around(100)), standing("b", *around(50)))
    assert sweep.names == ()
    assert sweep.stops == {"a": Stop.INTERVAL, "b": Stop.INTERVAL}


def test_cells_whose_rank_is_not_known_get_rounds_and_those_whose_is_known_none():
    sweep = next_sweep(*unclear(8), standing("c", *around(50)))
    assert set(sweep.names) == {"a", "b"}
    assert sweep.stops == {"c": Stop.INTERVAL}


def test_of_cells_with_one_need_those_whose_rounds_narrow_most_come_first():
    wide = standing("wide", *around(30, rounds=4, spread=0.1))
    narrow = standing("narrow", *around(60, rounds=20))
    assert next_sweep(*unclear(20), wide, narrow).names == ("wide",)
    # A fifth round narrows an interval by 22 %, a sixth one by 16 %.
    assert set(next_sweep(*unclear(5), wide, narrow).names) == {"a", "b", "wide"}


def test_rounds_that_cost_little_come_before_those_that_cost_much():
    cheap, dear = (
        [standing(f"{name}-{x}", *around(value, 6, 0.2), contest=name, round_s=round_s)
         for x, value in (("a", 100), ("b", 101))]
        for name, round_s in (("NLP-1", 2.0), ("CV-1", 25.0))
    )  # fmt: skip
    assert {name[:5] for name in next_sweep(*cheap, *dear).names} == {"NLP-1"}
    starts = next_sweep(*cheap, *dear, start_s={"": 4 * 25.0}).names  # one process, shared by four
    assert len(starts) == 4


def test_a_cell_that_costs_much_has_its_turn_when_the_others_have_many_rounds():
    dear = standing("dear", *around(50, 3, 0.2), contest="CV-1", round_s=20.0)
    turns = [
        rounds for rounds in range(3, 60) if "dear" in next_sweep(*unclear(rounds), dear).names
    ]
    assert turns == list(range(14, 60))
    assert "a" in next_sweep(*unclear(46), dear).names
    assert "a" not in next_sweep(*unclear(47), dear).names


def test_the_cheap_round_that_still_fits_is_begun_where_the_worthwhile_one_does_not():
    dear = standing("dear", *around(50, 3, 0.2), contest="CV-1", round_s=20.0)
    sweep = next_sweep(*unclear(40), dear, left_s=10.0)
    assert set(sweep.names) == {"a", "b"}
    assert sweep.stops == {"dear": Stop.TIME}


def test_a_known_rank_with_a_wide_interval_gets_rounds_when_no_rank_is_open():
    wide = standing("wide", *around(30, spread=0.3))
    assert next_sweep(standing("best", *around(100)), wide).names == ("wide",)
    rank = (standing("a", *around(100, spread=0.1)), standing("b", *around(101, spread=0.1)))
    assert "wide" not in next_sweep(*rank, wide).names


@pytest.mark.parametrize(("metric", "values"), [(RATE, (100, 10)), (WAIT, (10, 100))])
def test_a_library_far_behind_is_left_alone_however_wide_its_interval(metric, values):
    best, far = (standing(str(x), *around(x, spread=0.2)) for x in values)
    sweep = next_sweep(standing("best", *around(values[0])), far, metric=metric)
    assert sweep.stops[far.name] is Stop.DECIDED
    assert far.name not in next_sweep(best, far, metric=metric).names


def test_a_library_that_may_be_above_a_fifth_is_not_far_behind():
    slow = standing("slow", *around(19, rounds=4, spread=0.3))
    assert "slow" in next_sweep(standing("best", *around(100)), slow).names


def test_for_the_best_alone_only_those_that_may_be_it_get_rounds():
    contenders = (standing("a", *around(100, spread=0.2)), standing("b", *around(101, spread=0.2)))
    slower = (standing("c", *around(40, spread=0.2)), standing("d", *around(41, spread=0.2)))
    sweep = next_sweep(*contenders, *slower, goal="best")
    assert set(sweep.names) == {"a", "b"}
    assert sweep.stops == {"c": Stop.DECIDED, "d": Stop.DECIDED}
    assert set(next_sweep(*contenders, *slower).names) == {"a", "b", "c", "d"}


def test_cells_of_different_contests_are_not_compared():
    near = [standing(name, *around(100), contest=name) for name in ("CV-1", "TAB-1")]
    assert next_sweep(*near).names == ()
    far = standing("slow", *around(1), contest="other")
    assert next_sweep(*near, far).stops["slow"] is Stop.INTERVAL


def test_ties_use_the_time_that_nobody_else_needs_and_end_where_the_difference_is_negligible():
    tied = [standing(name, *around(100, 20, 0.05)) for name in "ab"]
    wide = standing("wide", *around(40, 8, 0.3))
    assert next_sweep(*tied, wide).names == ("wide",)
    assert set(next_sweep(*tied).names) == {"a", "b"}
    equal = [standing(name, *around(100, 20, 0.005)) for name in "ab"]
    assert next_sweep(*equal).names == ()


def test_a_round_that_would_not_end_in_time_is_not_begun():
    both = [standing("a", *around(100, spread=0.2), round_s=3, process="a")]
    both += [standing("b", *around(101, spread=0.2), round_s=3, process="b")]
    start_s = {"a": 2.0, "b": 2.0}
    assert set(next_sweep(*both, left_s=10, start_s=start_s).names) == {"a", "b"}
    short = next_sweep(*both, left_s=9.9, start_s=start_s)
    assert short.names == ("b",)  # the first place
    assert short.stops == {"a": Stop.TIME}
    over = next_sweep(*both, left_s=4.9, start_s=start_s)
    assert (over.names, set(over.stops.values())) == ((), {Stop.TIME})


def test_cells_of_a_process_share_its_start():
    both = [
        standing(name, 5.0, 10.0, 20.0, contest=name, round_s=1, process="one") for name in "ab"
    ]
    assert set(next_sweep(*both, left_s=4, start_s={"one": 2.0}).names) == {"a", "b"}
    assert len(next_sweep(*both, left_s=3.9, start_s={"one": 2.0}).names) == 1


def test_the_first_round_of_a_cell_is_measured_without_time_and_the_second_is_not():
    sweep = next_sweep(standing("none", round_s=9), standing("one", 10, round_s=9), left_s=-1)
    assert sweep.names == ("none",)
    assert sweep.stops == {"one": Stop.TIME}


def test_the_most_rounds_are_a_bound_and_a_metric_that_is_absent_ends_its_cell():
    few = EFFORT.model_copy(update={"max_rounds": 3})
    sweep = next_sweep(standing("a", 9, 10, 11), standing("b", 9, 10, 11), effort=few)
    assert set(sweep.stops.values()) == {Stop.ROUNDS}
    without = Standing("without", "TAB-1", (), 3)
    assert next_sweep(without).stops == {"without": Stop.ROUNDS}


def test_a_cell_with_a_record_is_compared_and_never_measured():
    ended = standing("ended", *around(100, spread=0.2), open=False)
    sweep = next_sweep(ended, standing("b", *around(101, spread=0.2)))
    assert sweep.names == ("b",)
    assert next_sweep(ended).stops == {}


@pytest.mark.parametrize("seed", range(30))
def test_every_open_cell_is_measured_or_stopped_and_no_time_is_overdrawn(seed):
    chance = Random(seed)
    cells = [
        standing(
            str(number),
            *(
                chance.lognormvariate(chance.choice([1, 3]), 0.3)
                for _ in range(chance.randrange(8))
            ),
            contest=chance.choice("ab"),
            process=chance.choice("pq"),
            round_s=chance.uniform(0, 3),
            open=chance.random() < 0.8,
        )
        for number in range(12)
    ]
    left_s, start_s = chance.uniform(-1, 20), {"p": 1.0, "q": 2.0}
    sweep = next_sweep(
        *cells, left_s=left_s, start_s=start_s, goal=chance.choice(["table", "best"])
    )
    by_name = {one.name: one for one in cells}
    assert set(sweep.names) | set(sweep.stops) == {one.name for one in cells if one.open}
    assert not set(sweep.names) & set(sweep.stops)
    chosen = [by_name[name] for name in sweep.names]
    if all(one.rounds for one in chosen):
        starts = sum(start_s[name] for name in {one.process for one in chosen})
        assert not chosen or sum(one.round_s for one in chosen) + starts <= left_s


# Simulated benches


@pytest.mark.parametrize("seeds", [CHOSEN_ON, UNSEEN], ids=["chosen on", "unseen"])
@pytest.mark.parametrize(
    ("scenarios", "time_s"), [(ALIKE, 600.0), (UNLIKE, 1200.0)], ids=["alike", "unlike"]
)
def test_the_top_three_are_ranked_right_more_often_than_by_time_spread_evenly(
    scenarios, time_s, seeds
):
    even = [spread_evenly(Bench(scenarios, time_s, seed)) for seed in seeds]
    ours = [spent_where_it_decides(Bench(scenarios, time_s, seed)) for seed in seeds]
    assert all(bench.left_s >= 0 for bench in (*even, *ours))
    right = [[one for bench in benches for one in bench.right()] for benches in (ours, even)]
    middles = []
    for found, way, benches in zip(right, ("so", "evenly"), (ours, even), strict=True):
        widths = [width for bench in benches for width in bench.half_widths()]
        middles.append(median(widths))
        print(
            f"spent {way}: right in {sum(found)} of {len(found)}, half of the intervals "
            f"below ±{percent(median(widths), 1)}, nine in ten below "
            f"±{percent(quantiles(widths, n=10)[-1], 1)}"
        )
    print(f"right only so: {sum(one > other for one, other in zip(*right, strict=True))}")
    print(f"right only evenly: {sum(one < other for one, other in zip(*right, strict=True))}")
    assert sum(right[0]) > sum(right[1])
    assert scenarios is ALIKE or middles[0] < middles[1]
