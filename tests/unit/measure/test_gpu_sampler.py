"""What the driver tells of GPUs while a round is timed, against quantities that are known."""

from __future__ import annotations

import os
import subprocess
import time
from datetime import UTC, datetime

import pytest

from skymark.machine import nvidia
from skymark.machine.gpu_fitness import use_warnings
from skymark.measure.gpu_sampler import GpuSampler
from skymark.model.machine import combined
from skymark.model.record import Resources, Round
from tests.nvml.stand_in import GIB, H100

BUSY = H100 | {
    "power": 300_000,
    "energy-rate": 300_000,
    "utilisation": 90,
    "clock-reasons": 0,
    "memory-used": 20 * GIB,
}


@pytest.fixture
def sampler():
    """Begin a sampler; it is closed after the test."""
    made, lost = [], []

    def begin(**options):
        made.append(GpuSampler(lambda: lost.append(True), interval_s=0.01, **options))
        made[-1].begin()
        return made[-1]

    begin.lost = lost
    yield begin
    for one in made:
        one.close()


def samples(sampler, count=5):
    """Wait until there are so many samples of the first GPU."""
    while sampler._ledgers[0]._samples < count:
        time.sleep(0.005)


def warned(*uses):
    """The warnings of rounds with these uses of GPUs."""
    usual = {"started_at": datetime(2026, 1, 1, tzinfo=UTC), "setup_s": 0.1, "timed_ns": 10**9}
    rounds = [
        Round(round=number, resources=Resources(gpus=one), **usual)
        for number, one in enumerate(uses)
    ]
    return [(one.kind, one.message) for one in use_warnings(rounds)]


def test_the_energy_of_a_board_of_known_power_is_that_power_times_the_time(driver, sampler):
    driver.has(BUSY)
    before = time.monotonic()
    one = sampler()
    within = time.monotonic()
    time.sleep(0.3)
    until = time.monotonic()
    (use,) = one.end()
    after = time.monotonic()
    assert 300 * (until - within) - 0.01 <= use.board_energy_j <= 300 * (after - before) + 0.01
    assert (use.power_w, use.sm_clock_mhz) == (pytest.approx(300.0), pytest.approx(1980.0))


def test_means_and_the_peak_are_over_the_samples_between_begin_and_end(driver, sampler):
    driver.has(BUSY | {"memory-used": 70 * GIB, "utilisation": 5, "sm-clock": 300})
    one = sampler()
    driver.has(BUSY | {"memory-used": 30 * GIB})
    one.begin()
    samples(one, 3)
    driver.has(BUSY | {"utilisation": 0, "sm-clock": 990})
    (use,) = one.end()
    assert use.peak_memory_bytes == 30 * GIB
    assert 0 < use.kernel_share < 0.9
    assert 990 < use.sm_clock_mhz < 1980
    assert (use.throttled, use.other_processes, use.is_slice) == ({}, (), False)
    assert use.samples >= 4
    assert warned((use,)) == []


def test_a_gpu_that_is_slowed_down_is_told_with_the_reasons_and_warned_of(driver, sampler):
    driver.has(BUSY | {"clock-reasons": 0x44})
    one = sampler()
    samples(one, 3)
    (use,) = one.end()
    assert use.throttled == {"power limit": 1.0, "temperature, hardware limit": 1.0}
    ((kind, message),) = warned((use,))
    assert kind == "gpu-throttled"
    assert "GPU 0 is slowed down in 100 % of a round: power limit, temp" in message
    assert warned((use.model_copy(update={"throttled": {"power limit": 0.01}}),)) == []


@pytest.mark.parametrize("reasons", [0x1, 0x2, 0x10, 0x100, 0])
def test_clocks_that_are_low_for_want_of_work_or_by_choice_are_no_slowing_down(
    driver, sampler, reasons
):
    driver.has(BUSY | {"clock-reasons": reasons})
    (use,) = sampler().end()
    assert use.throttled == {}


def test_another_program_on_the_gpu_is_told_by_name_and_ours_is_not(driver, sampler):
    ours = subprocess.Popen(["sleep", "60"])
    try:
        running = f"{ours.pid}:{GIB},{os.getppid()}:{2 * GIB}"
        driver.has(BUSY | {"processes": running}, BUSY)
        (use,) = sampler().end()  # nothing of ours is on the other GPU
    finally:
        ours.kill()
        ours.wait()
    (other,) = use.other_processes
    assert (use.index, other.pid, other.memory_bytes) == (0, os.getppid(), 2 * GIB)
    ((kind, message),) = warned((use,), (use,))
    assert kind == "gpu-shared"
    assert f"GPU 0 was used meanwhile by {other.text}" in message


def test_several_gpus_are_taken_together(driver, sampler):
    driver.has(BUSY, BUSY | {"power": 100_000, "energy-rate": 100_000, "utilisation": 10})
    one = sampler()
    samples(one, 3)
    uses = one.end()
    whole = combined(uses)
    assert whole.power_w == pytest.approx(400.0)
    assert whole.board_energy_j == pytest.approx(sum(use.board_energy_j for use in uses))
    assert whole.kernel_share == pytest.approx(0.5)
    assert combined([uses[0], uses[1].model_copy(update={"power_w": None})]).power_w is None
    assert combined([]) is None


def test_a_slice_is_told_as_one_with_what_the_driver_has_of_it(driver, sampler):
    part = {"slice1.uuid": "MIG-a", "slice1.name": "H100 MIG 1g.10gb", "slice1.memory": 10 * GIB}
    driver.has(BUSY | {"mig": 1, "slices": 7, **part, "slice1.memory-used": GIB})
    (use,) = sampler().end()
    assert (use.is_slice, use.peak_memory_bytes, use.power_w) == (True, GIB, None)
    assert warned((use,))[0][0] == "gpu-slice"


def test_a_gpu_that_is_lost_is_told_at_once_and_has_no_figures(driver, sampler):
    driver.has(BUSY)
    one = sampler()
    driver.lose()
    while not sampler.lost:
        time.sleep(0.005)
    assert one.end() is None
    assert sampler.lost == [True]


def test_a_driver_that_hangs_ends_the_round_and_not_the_engine(driver, sampler, monkeypatch):
    monkeypatch.setattr(nvidia, "ANSWER_S", 0.1)
    driver.has(BUSY)
    one = sampler()
    driver.has(BUSY | {"hangs": 30})
    assert one.end() is None
    assert sampler.lost == [True]


def test_nothing_is_watched_without_a_driver_or_for_work_on_the_host(driver, sampler):
    assert sampler().end() is None
    driver.has(BUSY)
    assert sampler(on=False).end() is None
    assert sampler.lost == []
