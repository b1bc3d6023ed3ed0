"""PR-3: a loader that keeps what it delivered grows by just that."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from skymark.measure.loop import Pass
from skymark.suites.loading.drives import long_run
from skymark.suites.loading.drives.long_run import Memory, Outline, slope
from skymark.suites.loading.scenarios.pr_production import LongRun
from skymark.suites.loading.work import Size

BYTES = 32768
"""What is kept is large beside a library's pages, which count by who else has them."""
SCENARIO = LongRun(Size(elements=75, batch_size=16, values={"object_bytes": BYTES}), seed=3)


def longer(bench, seconds, batches=1):
    limits = bench.limits.model_copy(update={"min_seconds": seconds, "min_batches": batches})
    return dataclasses.replace(bench, limits=limits)


def test_a_loader_that_keeps_every_batch_grows_by_what_it_keeps(make_bench, monkeypatch):
    monkeypatch.setattr(long_run, "PAUSE_S", 0)  # after each epoch, however long it takes
    monkeypatch.setattr(long_run, "SHARE", 0)
    bench = longer(make_bench(SCENARIO, "KeepsEveryBatch"), 0.4, batches=200)
    outcome = long_run.drive(bench)
    assert bench.oracle.verdict().passed, bench.oracle.verdict().cause
    growth = outcome.extra["memory_growth_bytes_per_1000_samples"]
    assert growth == pytest.approx(1000 * BYTES, rel=0.25)
    assert outcome.extra["settled_memory_bytes"] > 10e6


def test_every_epoch_is_timed_and_verified(make_bench):
    bench = longer(make_bench(SCENARIO), 0.02)
    outcome = long_run.drive(bench)
    epochs = max(outcome.epoch)
    assert outcome.timed_ns >= 0.1e9
    assert outcome.elements == 75 * epochs
    assert outcome.wait_ns == [int(one) for one in outcome.wait_ns]
    assert len(outcome.wait_ns) == len(outcome.batch_elements) == 5 * (epochs + 1)
    assert bench.oracle.verdict().counts["epochs"] == epochs + 1
    assert outcome.bytes == outcome.elements * (8 + BYTES + 8)


def test_a_check_measures_one_epoch_and_tells_of_no_growth(make_bench):
    outcome = long_run.drive(longer(make_bench(SCENARIO), 0.0))
    assert max(outcome.epoch) == 1
    assert outcome.extra == {}


def test_a_run_stops_at_its_longest_time(make_bench):
    bench = make_bench(SCENARIO)
    limits = bench.limits.model_copy(update={"min_seconds": 9.0, "max_seconds": 5.0})
    given = []

    def run(epoch, kept, seconds):
        given.append(seconds)
        return Pass([1], [np.arange(4)], {}, int(2e9), complete=seconds > 2)

    passes = list(long_run.measured_passes(dataclasses.replace(bench, limits=limits), run))
    assert (len(passes), given) == (3, pytest.approx([5, 3, 1]))


def test_an_outline_has_all_of_a_pass_but_its_content():
    batch = {"index": np.arange(3)}
    indices = [np.arange(4), np.arange(2)]
    done = Pass([10, 20], indices, {1: batch}, wall_ns=30, think_ns=5, busy_ns=4, complete=False)
    whole = Outline.of(done, keeps=True).whole
    assert [len(index) for index in whole.indices] == [4, 2]
    assert whole.wait_ns == [10, 20]
    assert whole.kept == {1: batch}
    assert (whole.wall_ns, whole.think_ns, whole.busy_ns, whole.complete) == (30, 5, 4, False)
    assert Outline.of(done, keeps=False).whole.kept == {}


def test_a_weighing_follows_another_after_a_pause_only(monkeypatch):
    memory, now = Memory(), [100.0]
    monkeypatch.setattr(long_run.time, "monotonic", lambda: now[0])
    weighed = iter(range(10, 1000, 10))
    monkeypatch.setattr(long_run, "pss_bytes_of_tree", lambda pid, exclude: next(weighed))
    for _ in range(100):
        memory.weigh(5)
        now[0] += 0.125
    assert next(weighed) == 10 * 51
    figures = memory.figures()
    assert figures["memory_growth_bytes_per_1000_samples"] == pytest.approx(1000 * 10 / 10)


def test_memory_that_is_not_known_gives_no_figure(monkeypatch):
    memory = Memory()
    monkeypatch.setattr(long_run, "PAUSE_S", 0.0)
    monkeypatch.setattr(long_run, "SHARE", 0)
    monkeypatch.setattr(long_run, "pss_bytes_of_tree", lambda pid, exclude: None)
    for _ in range(50):
        memory.weigh(5)
    assert memory.figures() == {}


def test_a_slope_does_not_follow_one_jump():
    x = np.arange(20)
    y = 3.0 * x
    y[7] += 1e6
    assert slope(x, y) == pytest.approx(3.0)
