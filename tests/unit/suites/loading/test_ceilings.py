"""Ceilings of a machine for loaders: rates by a clock that is told the time."""

from __future__ import annotations

from itertools import count

from skymark.suites.loading.ceilings import elements_per_s
from skymark.suites.loading.metrics import DECLARATION
from skymark.suites.loading.tuning import LENGTHS, TUNING, efforts


def test_the_rate_of_one_core_is_the_elements_over_the_time_and_the_first_is_not_counted():
    done = []
    ticks = count()
    rate = elements_per_s(done.append, 3, limit_s=4.0, clock=lambda: next(ticks) / 2)
    assert rate == 2.0
    assert done == [0, 0, 1, 2, 0, 1, 2, 0, 1]


def test_the_metrics_of_a_tune_are_declared():
    goal, cost = (DECLARATION.metric(name) for name in (TUNING.goal, TUNING.cost))
    assert (goal.better, cost.better) == ("higher", "lower")
    assert DECLARATION.metric("nosuch") not in DECLARATION.metrics
    assert {goal, cost} <= set(DECLARATION.metrics)


def test_rounds_of_a_long_step_are_longer():
    usual = [one.limits["max_seconds"] for one in efforts(20.0, "standard")]
    assert usual == [seconds for _, seconds in LENGTHS["standard"]]
    long = [one.limits["max_seconds"] for one in efforts(1000.0, "standard")]
    assert long == [8 * seconds for seconds in usual]
    assert all(one.cell_timeout_s > one.limits["max_seconds"] for one in efforts(1e5, "rigorous"))
