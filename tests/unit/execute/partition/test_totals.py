"""A total of CPUs and memory is divided between the workers that run at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skymark.execute.partition.shard import requests_of
from skymark.execute.partition.split import read_split
from skymark.model.errors import UsageError

TEXTS = ("even:10", "weighted:heavy=1x60,worker=7x20", "two-level:5x10", "waves:5x10/4")


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("even:10", [("worker", 20, 40)]),
        ("longest:10", [("worker", 20, 40)]),
        ("weighted:heavy=1x60,worker=7x20", [("heavy", 60, 120), ("worker", 20, 40)]),
        ("two-level:5x10", [("worker", 4, 8)]),
        ("waves:5x10/4", [("worker", 10, 20)]),
    ],
)
def test_two_hundred_cpus_and_four_hundred_gigabytes_are_divided(text, asked):
    found = requests_of(read_split(text), 200, 400)
    assert [(one.type.name, one.cpus, one.memory_gb) for one in found] == asked


@given(st.sampled_from(TEXTS), st.integers(200, 10_000), st.floats(100, 1e5))
def test_those_that_run_at_once_never_ask_for_more_than_there_is(text, cpus, memory_gb):
    found = requests_of(read_split(text), cpus, memory_gb)
    assert sum(one.cpus * one.type.running for one in found) <= cpus
    assert sum(one.memory_gb * one.type.running for one in found) <= memory_gb * (1 + 1e-9)


def test_without_a_total_the_split_s_own_cpus_count():
    assert [one.cpus for one in requests_of(read_split(TEXTS[1]))] == [60, 20]
    assert [one.cpus for one in requests_of(read_split(TEXTS[0]))] == [None]


@pytest.mark.parametrize(("cpus", "memory_gb", "option"), [(49, 400, "cpus"), (200, 0.1, "memory")])
def test_a_total_that_is_too_small_is_refused(cpus, memory_gb, option):
    with pytest.raises(UsageError, match=f"--total-{option} .* 50 simultaneous"):
        requests_of(read_split("two-level:5x10"), cpus, memory_gb)
