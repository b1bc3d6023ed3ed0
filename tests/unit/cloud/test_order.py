"""Durations, limits and names of an order."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from skymark.cloud.order import Order, cluster_name, limit_s, new_run_id, seconds_of
from skymark.model.errors import UsageError


def order_of(**changes):
    return Order(**{"profile": "cpu", "run_id": "run", "cluster": "skymark-cpu-1", **changes})


@pytest.mark.parametrize(
    ("text", "seconds"), [("45s", 45), ("90m", 5400), ("2h", 7200), ("1h30m", 5400), ("1d", 86400)]
)
def test_a_duration_is_read(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "90", "m", "1.5h", "-1h", "0s", "1h 30m", "2w"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(UsageError, match="such as 90m"):
        seconds_of(text)


def test_without_deadline_and_ceiling_there_is_no_limit():
    assert limit_s(order_of(), 0.8, 60) is None


def test_the_deadline_is_the_limit_of_set_up_and_run():
    assert limit_s(order_of(deadline_s=600), 0.8, 60) == 600


def test_the_budget_pays_for_boot_and_end_too():
    assert limit_s(order_of(max_cost_usd=2.0), 4.0, 300) == 1800 - 300


def test_the_tighter_of_deadline_and_budget_counts():
    assert limit_s(order_of(max_cost_usd=2.0, deadline_s=1000), 4.0, 300) == 1000
    assert limit_s(order_of(max_cost_usd=2.0, deadline_s=9000), 4.0, 300) == 1500


def test_a_machine_that_costs_nothing_has_no_budget_limit():
    assert limit_s(order_of(max_cost_usd=2.0), 0.0, 300) is None


def test_a_machine_gets_a_name_that_providers_take():
    name = cluster_name("benchmarks/profiles/gpu_A100.toml")
    assert re.fullmatch(r"skymark-gpu-a100-[0-9a-f]{4}", name)
    assert cluster_name("cpu") != cluster_name("cpu")


def test_a_run_is_named_by_time_and_profile():
    now = datetime(2026, 11, 21, 20, 29, 19, tzinfo=UTC)
    assert new_run_id("some/where/mine.toml", now) == "20261121-202919-mine"
