"""A warm-up goes on for an epoch, or for as much as suffices of one that cannot end in time."""

import dataclasses
import time
from functools import partial

import pytest

from skymark.measure.loop import timed_pass
from skymark.suites.loading.drives import epochs
from skymark.suites.loading.drives.stream import Enough
from skymark.suites.loading.figures import round_metrics
from skymark.suites.loading.scenarios.pr_production import Determinism
from skymark.suites.loading.suite import LoadingSuite
from skymark.suites.loading.work import Size

SECOND = 10**9
ENOUGH = Enough(batches=20, of_batches=101, stream_ns=SECOND)

OF_FIRST_EPOCH = {
    "first_epoch_s",
    "first_epoch_cpu_s_per_1000_samples",
    "samples_per_s_over_1_epochs",
    "samples_per_s_over_10_epochs",
    "samples_per_s_over_100_epochs",
}


@pytest.mark.parametrize(
    ("arrived", "first_s", "last_s", "more_s"),
    [
        pytest.param(101 // 5, 3.0, 3.9, 1, id="its-stream-was-too-short"),
        pytest.param(20, 3.0, 6.0, 1, id="too-few-batches"),
        pytest.param(21, 3.0, 5.0, 0, id="thirteen-seconds-in-all"),
        pytest.param(21, 3.0, 4.2, 1, id="nine-seconds-in-all"),
        pytest.param(30, 3.0, 9.5, 0, id="slower-than-it-began"),
        pytest.param(19, 3.0, 9.5, 0.5, id="the-longest-time-stays-the-longest"),
        pytest.param(19, 3.0, 10.5, 0, id="over-the-longest-time"),
        pytest.param(1, 11.0, 11.0, 0, id="a-first-batch-over-the-longest-time"),
    ],
)
def test_what_cannot_end_in_time_ends_when_enough_is_known(arrived, first_s, last_s, more_s):
    first_ns, last_ns = int(first_s * SECOND), int(last_s * SECOND)
    assert ENOUGH.within(10 * SECOND)(arrived, first_ns, last_ns) == int(more_s * SECOND)


def test_with_a_time_of_its_own_it_ends_then_though_the_epoch_would_end_in_time():
    early = dataclasses.replace(ENOUGH, is_always=True).within(10 * SECOND)
    assert ENOUGH.within(10 * SECOND)(21, SECOND, 2 * SECOND) > 0
    assert early(21, SECOND, 2 * SECOND) == 0
    assert early(20, SECOND, 2 * SECOND) > 0, "the queues may not be full"
    assert early(30, SECOND, int(1.9 * SECOND)) > 0, "the stream was too short"


def test_an_effort_that_wants_no_seconds_does_not_go_on_for_ever():
    none = dataclasses.replace(ENOUGH, stream_ns=0).within(10 * SECOND)
    assert none(1, 50, 50) > 0
    assert none(21, 50, 51) > 0
    assert none(21, 50, 4 * SECOND) == 0


@pytest.fixture
def make_slow_bench(make_bench, monkeypatch):
    """Make a bench whose epochs of 200 batches take twice the longest time, a second.

    No time passes but what its loader sleeps for.
    """
    slept_ns = 0

    def sleep(seconds):
        nonlocal slept_ns
        slept_ns += round(seconds * SECOND)

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(epochs, "timed_pass", partial(timed_pass, clock=lambda: slept_ns))

    def make(loader="Slow", **fields):
        size = Size(elements=200 * 16, batch_size=16, values={"features": 4})
        bench = make_bench(Determinism(size), loader)
        limits = {"min_seconds": 0.05, "max_seconds": 1.0, "verified_elements": 64}
        return dataclasses.replace(bench, limits=bench.limits.model_copy(update=limits), **fields)

    return make


def test_a_round_does_not_spend_as_long_on_warming_up_as_on_measuring(make_slow_bench):
    bench = make_slow_bench()
    outcome = epochs.drive(bench)
    assert bench.oracle.verdict().passed
    assert bench.lead < outcome.epoch.count(0) < outcome.epoch.count(1) < 200
    assert not OF_FIRST_EPOCH & round_metrics(outcome, 0.0).keys()


def test_a_cache_is_filled_for_as_long_as_there_is_time(make_slow_bench):
    outcome = epochs.drive(make_slow_bench(whole_warm_up=True))
    assert sum(outcome.wait_ns[: outcome.epoch.count(0)]) > 0.3e9


def test_a_whole_epoch_warms_up_where_there_is_time_for_it(make_slow_bench):
    bench = make_slow_bench()
    time = {"max_seconds": 30.0}
    outcome = epochs.drive(dataclasses.replace(bench, limits=bench.limits.model_copy(update=time)))
    assert outcome.epoch.count(0) == outcome.epoch.count(1) == 200
    assert round_metrics(outcome, 0.0).keys() >= OF_FIRST_EPOCH
    assert {one.name for one in LoadingSuite.declaration.metrics} >= OF_FIRST_EPOCH
