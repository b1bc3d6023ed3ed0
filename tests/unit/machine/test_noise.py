"""The arithmetic of a machine's noise, with given samples and a clock that is told the time."""

from __future__ import annotations

import os
from itertools import cycle

import pytest

from skymark.machine.fitness import (
    CpuTimes,
    Noise,
    cpu_times,
    kernel,
    noise_warnings,
    observe,
    others_share,
    pressure_of,
    steal_share,
)

CALM = Noise(
    rounds_s=(0.01, 0.01),
    repetitions=100,
    fastest_s=0.01,
    median_s=0.01,
    slowest_s=0.01,
    steal_share=0.0,
    others_share=0.0,
    frequency_mhz=None,
    load_average_1m=0.1,
    pressure={},
)


class Time:
    """A clock that work moves."""

    def __init__(self, *durations):
        self.now = 0.0
        self.durations = cycle(durations)

    def __call__(self):
        return self.now

    def work(self):
        self.now += next(self.durations)


@pytest.fixture
def root(tmp_path):
    """The kernel's files of a machine with two processors."""
    (tmp_path / "proc" / "pressure").mkdir(parents=True)
    some = "some avg10=12.50 avg60=1.00 avg300=0.00 total=9\n"
    (tmp_path / "proc" / "pressure" / "cpu").write_text(some)
    (tmp_path / "proc" / "pressure" / "io").write_text(f"{some}full avg10=3.00 avg60=0 total=1\n")
    for core, khz in enumerate((2_000_000, 3_000_000)):
        file = tmp_path / f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq"
        file.parent.mkdir(parents=True)
        file.write_text(f"{khz}\n")
    return tmp_path


def test_rounds_are_averages_of_half_a_second_of_repetitions(root, monkeypatch):
    monkeypatch.setattr("os.getloadavg", lambda: (1.25, 0.9, 0.4))
    clock = Time(0.125, 0.125, 0.125, 0.125, 0.25, 0.25)
    seen = observe(2.0, clock.work, clock, lambda: 0.0, root=root)
    assert seen.rounds_s == (0.125, 0.25, 0.125, 0.25)
    assert (seen.fastest_s, seen.slowest_s, seen.repetitions) == (0.125, 0.25, 12)
    assert seen.spread == pytest.approx(0.0721687 / 0.1875, rel=1e-5)
    assert seen.load_average_1m == 1.25
    assert seen.pressure == {"cpu": 0.125, "io": 0.125}
    assert seen.frequency_mhz == (2500, 2500)


def test_a_slow_machine_has_two_rounds_all_the_same(root):
    clock = Time(60.0)
    assert len(observe(10.0, clock.work, clock, lambda: 0.0, root=root).rounds_s) == 2


def test_stolen_time_is_a_share_of_what_went_by_in_between():
    before, after = CpuTimes(163, 7, 1000), CpuTimes(213, 17, 1100)
    assert steal_share(before, after) == pytest.approx(0.1)
    assert steal_share(before, before) is None


def test_others_have_what_is_busy_and_not_one_s_own(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    before, after = CpuTimes(163, 7, 1000), CpuTimes(243, 7, 1100)
    assert others_share(before, after, own_cores=1.0) == pytest.approx(0.3)
    assert others_share(before, after, own_cores=2.0) == 0
    assert others_share(before, before, own_cores=1.0) is None


def test_times_of_guests_are_counted_once(tmp_path, monkeypatch):
    (tmp_path / "stat").write_text("cpu  100 10 50 800 30 1 2 7 40 0\n")
    monkeypatch.setattr("psutil.PROCFS_PATH", str(tmp_path))
    found, ticks = cpu_times(), os.sysconf("SC_CLK_TCK")
    assert found.busy * ticks == pytest.approx(100 + 10 + 50 + 1 + 2)
    assert found.steal * ticks == pytest.approx(7)
    assert found.total * ticks == pytest.approx(100 + 10 + 50 + 800 + 30 + 1 + 2 + 7)


def test_a_machine_that_tells_nothing_is_watched_all_the_same(tmp_path):
    assert pressure_of("avg10", tmp_path) == {}
    clock = Time(0.25)
    still = CpuTimes(1, 0, 2)
    seen = observe(1.0, clock.work, clock, lambda: 0.0, lambda: still, tmp_path)
    assert (seen.steal_share, seen.others_share, seen.frequency_mhz) == (None, None, None)


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        ({}, []),
        ({"steal_share": 0.02}, ["cpu-steal"]),
        ({"pressure": {"cpu": 0.5, "io": 0.9}}, ["cpu-pressure"]),
        ({"rounds_s": (0.01, 0.012, 0.01)}, ["noisy-processor"]),
    ],
)
def test_what_makes_measuring_long_is_a_warning(change, kinds):
    assert [one.kind for one in noise_warnings(CALM.model_copy(update=change))] == kinds


def test_the_kernel_does_the_same_work_each_time():
    assert kernel() == kernel() != 1
