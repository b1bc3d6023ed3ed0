"""Ceilings of a machine for loaders: rates by a clock that is told the time."""

from __future__ import annotations

import time
from itertools import count

import pytest

from skymark.execute.tune import STAGES, stage_efforts
from skymark.suites.loading.ceilings import decoder_of, elements_per_s, rate_at_once
from skymark.suites.loading.metrics import DECLARATION
from skymark.suites.loading.registry import scenarios
from skymark.suites.loading.tuning import TUNING


def test_the_rate_of_one_core_is_the_elements_over_the_time_and_the_first_is_not_counted():
    done = []
    ticks = count()
    rate = elements_per_s(done.append, 3, limit_s=4.0, clock=lambda: next(ticks) / 2)
    assert rate == 2.0
    assert done == [0, 0, 1, 2, 0, 1, 2, 0, 1]


@pytest.mark.parametrize("processes", [1, 3])
def test_the_rate_of_several_processes_is_per_second_of_their_own_cpu_time(processes):
    def work(_: int) -> None:
        until_s = time.process_time() + 0.01
        while time.process_time() < until_s:
            pass

    rate = rate_at_once(work, 100, processes, limit_s=0.1)
    assert rate == pytest.approx(processes * 100, rel=0.1)


@pytest.mark.parametrize("damaged", [0, 7], ids=["the first element", "a later one"])
def test_a_fault_of_one_process_is_raised(damaged):
    def work(index: int) -> None:
        if index == damaged:
            raise ValueError("cannot be decoded")

    with pytest.raises(ValueError, match="cannot be decoded"):
        rate_at_once(work, 10, 2, limit_s=0.2, begin_s=0.2)


@pytest.mark.parametrize(
    "cls", [cls for cls in scenarios().values() if cls.codec], ids=lambda cls: cls.id
)
def test_a_scenario_with_a_codec_has_a_stage_that_decodes(cls):
    size = next(iter(cls.variants.values()))
    axes = {name: values[0] for name, values in cls.axis_values.items()}
    assert decoder_of(cls(size, axes=axes)).name == "decode"


def test_the_metrics_of_a_tune_are_declared():
    goal, cost = (DECLARATION.metric(name) for name in (TUNING.goal, TUNING.cost))
    assert (goal.better, cost.better) == ("higher", "lower")
    assert DECLARATION.metric("nosuch") not in DECLARATION.metrics
    assert {goal, cost} <= set(DECLARATION.metrics)


def test_rounds_of_a_long_step_are_longer():
    def seconds_of(step_ms):
        return [one.limits["max_seconds"] for one in stage_efforts(TUNING, "standard", step_ms)]

    assert seconds_of(20.0) == [seconds for _, seconds in STAGES["standard"]]
    assert seconds_of(1000.0) == [8 * seconds for seconds in seconds_of(20.0)]
    longest = stage_efforts(TUNING, "rigorous", 1e5)
    assert all(one.cell_timeout_s > one.limits["max_seconds"] for one in longest)
