"""Rates of disk and memory, by a clock that is told the time."""

from __future__ import annotations

from itertools import count

from skymark.machine.disk import (
    COPIED_BYTES,
    disk_bytes_per_s,
    memory_bytes_per_s,
    usable_cores,
)


def test_a_disk_s_rate_is_the_bytes_read_over_the_time_of_reading(tmp_path):
    files = [tmp_path / name for name in "abc"]
    for file in files:
        file.write_bytes(bytes(1000))
    ticks = count()
    # Each file is opened at one tick, looked at after its bytes, and closed at the third.
    assert disk_bytes_per_s(files, 1e9, lambda: float(next(ticks))) == 3000 / 6


def test_reading_stops_when_the_time_is_over(tmp_path):
    files = [tmp_path / name for name in "abc"]
    for file in files:
        file.write_bytes(bytes(1000))
    ticks = count()
    assert disk_bytes_per_s(files, 1.0, lambda: float(next(ticks))) == 1000 / 2


def test_where_there_is_nothing_to_read_there_is_no_rate(tmp_path):
    (tmp_path / "empty").touch()
    assert disk_bytes_per_s([]) is None
    assert disk_bytes_per_s([tmp_path / "empty"]) is None


def test_memory_s_rate_is_that_of_the_median_copy():
    times = iter((0, 1, 1, 3, 3, 10))
    assert memory_bytes_per_s(3, lambda: next(times)) == COPIED_BYTES / 2


def test_there_is_a_core_to_use():
    assert usable_cores() >= 1
