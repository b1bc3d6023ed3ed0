"""What a round got of the machine, from given clocks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from skymark.machine.processes import Process
from skymark.measure import machine_watch
from skymark.measure.machine_watch import CoreTimes, MachineWatch, Moment, core_times

START = Moment(
    own_s=10.0,
    table={},
    wall_s=100.0,
    cores=CoreTimes(idle=50.0, steal=1.0, interrupts=2.0, counted=200.0),
    engine_s=3.0,
    waited_s={"cpu": 7.0},
    throttled_s=1.0,
)


def process(pid: int, cpu_s: float, name: str = "stress-ng", started: float = 1.0) -> Process:
    return Process(pid, 1, started, ended=False, cpu_s=cpu_s, reaped_cpu_s=0.0, name=name)


def after(wall_s: float, *, cores: int = 2, **spent: float) -> Moment:
    """Return the moment after a time in which cores had these idle, stolen … core seconds."""
    counted = {name: spent.get(name, 0.0) for name in ("idle", "steal", "interrupts")}
    before = START.cores
    return replace(
        START,
        wall_s=START.wall_s + wall_s,
        own_s=START.own_s + spent.get("own", 0.0),
        engine_s=START.engine_s + spent.get("engine", 0.0),
        cores=CoreTimes(
            **{name: getattr(before, name) + value for name, value in counted.items()},
            counted=before.counted + spent.get("counted", cores * wall_s),
        ),
    )


@pytest.fixture
def use(monkeypatch):
    """Return the use of a machine between `START` and a moment."""

    def noted(end: Moment, begin: Moment = START, quota: float | None = None, own=()):
        monkeypatch.setattr(machine_watch, "cores_of_machine", lambda: (2.0, quota or 2.0))
        moments = iter((begin, end))
        watch = MachineWatch(moment=lambda *_: next(moments))
        watch.begin(0.0, {})
        return watch.end(0.0, {}, own)

    return noted


@pytest.mark.parametrize(
    ("spent", "others", "stolen"),
    [
        ({"idle": 4.0}, 0.0, 0.0),
        ({"own": 4.0}, 0.0, 0.0),
        ({"own": 1.0, "idle": 3.0}, 0.0, 0.0),  # a library that waits for a disk
        ({"own": 2.0}, 1.0, 0.0),
        ({"own": 1.5, "engine": 0.5}, 1.0, 0.0),
        ({"own": 2.0, "idle": 1.0}, 0.5, 0.0),
        ({"own": 2.0, "idle": 1.0, "steal": 1.0}, 0.0, 0.5),
        ({"own": 2.0, "interrupts": 1.0}, 0.5, 0.0),
        ({"own": 5.0}, 0.0, 0.0),
    ],
)
def test_others_have_what_is_neither_idle_nor_our_own(use, spent, others, stolen):
    seen = use(after(2.0, **spent))
    assert seen.others_cores == pytest.approx(others)
    assert seen.stolen_cores == pytest.approx(stolen)
    assert seen.taken_share == pytest.approx((others + stolen) / 2)


@pytest.mark.parametrize(("quota", "others"), [(None, 1.0), (1.0, 0.0), (1.5, 0.5)])
def test_others_may_have_the_processors_that_a_quota_withholds(use, quota, others):
    seen = use(after(2.0, own=2.0), quota=quota)
    assert seen.others_cores == pytest.approx(others)
    assert seen.cores == (quota or 2.0)


@pytest.mark.parametrize("end", [after(0.1), after(2.0, counted=0.0)])
def test_a_short_time_and_a_kernel_that_counts_nothing_leave_the_share_unknown(use, end):
    seen = use(end)
    assert (seen.others_cores, seen.stolen_cores, seen.taken_share) == (None, None, None)


def test_waits_and_stops_are_shares_of_the_time(use):
    end = replace(after(2.0), waited_s={"cpu": 8.0, "io": 3.0}, throttled_s=1.5)
    seen = use(end)
    assert seen.waited_shares == {"cpu": pytest.approx(0.5)}
    assert seen.throttled_share == pytest.approx(0.25)
    assert use(replace(end, throttled_s=None)).throttled_share is None


@pytest.mark.parametrize(
    ("before", "now", "own", "program"),
    [
        ({}, {5: process(5, 1.5)}, (), "stress-ng"),
        ({}, {5: process(5, 1.5)}, (5,), None),
        ({5: process(5, 1.4)}, {5: process(5, 1.5)}, (), None),
        ({5: process(5, 9.0, started=0.0)}, {5: process(5, 1.5)}, (), "stress-ng"),
        ({}, {5: process(5, 0.8), 6: process(6, 0.8), 7: process(7, 1.0, "make")}, (), "stress-ng"),
        ({}, {5: process(5, 0.2)}, (), None),
    ],
)
def test_the_program_that_took_most_is_named(use, before, now, own, program):
    begin, end = replace(START, table=before), replace(after(2.0, own=2.0), table=now)
    assert use(end, begin, own=own).program == program


def test_a_watch_without_a_begin_has_nothing_to_tell():
    assert MachineWatch().end(0.0, {}, ()) is None


def test_the_kernels_times_never_run_back():
    seen = [core_times() for _ in range(3)]
    assert all(later.counted >= earlier.counted for earlier, later in pairwise(seen))
    assert all(0 <= times.idle <= times.counted for times in seen)
