"""Requests of a run on rented machines: names, limits, idle minutes, and notes of them."""

from __future__ import annotations

import re

import pytest

from skymark.cloud.rented_run import (
    IDLE_MINUTES,
    KEPT_IDLE_MINUTES,
    cluster_name,
    idle_minutes_for,
    limit_s,
    limits_of,
)
from skymark.execute.planner import load_profile
from skymark.model.errors import UsageError
from skymark.model.requests import Limits, Machine
from skymark.resources import resource_directory
from tests.rented_runs import run_of


def test_without_deadline_and_ceiling_there_is_no_limit():
    assert limit_s(Limits(), 0.8, 60) is None


def test_the_deadline_is_the_limit_of_set_up_and_run():
    assert limit_s(Limits(deadline_s=600), 0.8, 60) == 600


def test_the_budget_pays_for_boot_and_end_too():
    assert limit_s(Limits(max_cost_usd=2.0), 4.0, 300) == 1800 - 300


def test_the_tighter_of_deadline_and_budget_counts():
    assert limit_s(Limits(max_cost_usd=2.0, deadline_s=1000), 4.0, 300) == 1000
    assert limit_s(Limits(max_cost_usd=2.0, deadline_s=9000), 4.0, 300) == 1500


def test_a_machine_that_costs_nothing_has_no_budget_limit():
    assert limit_s(Limits(max_cost_usd=2.0), 0.0, 300) is None


def test_a_machine_is_named_for_its_profile_with_a_number_where_that_is_taken():
    assert cluster_name("benchmarks/profiles/gpu_A100.toml") == "skymark-gpu-a100"
    assert cluster_name("cpu", {"skymark-cpu"}) == "skymark-cpu-2"
    assert cluster_name("cpu", {"skymark-cpu", "skymark-cpu-2", "other"}) == "skymark-cpu-3"


@pytest.mark.parametrize("name", ["", "1st", "a b", "-c", "a/b", "mine-", "../up"])
def test_a_name_that_ssh_or_a_provider_would_not_take_is_refused(name):
    with pytest.raises(UsageError, match=re.escape(f"--cluster {name!r}")):
        Machine(name=name)


def test_a_name_of_ones_own_is_taken():
    assert Machine(name="mine-2").name == "mine-2"


def test_a_profile_s_limits_count_where_no_others_are_given():
    profile = load_profile("gpu_a100")
    assert limits_of(profile, Limits()) == Limits(deadline_s=1800, max_cost_usd=2.5)
    assert limits_of(profile, Limits(), 2).max_cost_usd == 5.0
    given = Limits(deadline_s=7200, max_cost_usd=5.0)
    assert limits_of(profile, given, 2) == given
    mine = profile.model_copy(update={"deadline_minutes": None, "max_cost_usd": None})
    assert limits_of(mine, Limits()) == Limits()


KEY = {"WANDB_API_KEY": "key"}


@pytest.mark.parametrize(
    ("stores", "environment"),
    [
        (("s3://bucket/runs",), {}),
        (("file:///data", "s3://bucket"), {}),
        (("wandb",), KEY),
        ((), KEY | {"WANDB_MODE": "online"}),  # the key goes to the machine, and with it W&B
    ],
)
def test_a_machine_whose_results_lie_elsewhere_too_ends_itself_after_one_idle_minute(
    stores, environment
):
    assert idle_minutes_for(Machine(), stores, environment) == 1


@pytest.mark.parametrize(
    ("stores", "environment"),
    [
        ((), {}),
        (("file:///data",), {}),
        (("wandb",), {}),
        (("wandb",), KEY | {"WANDB_MODE": "offline"}),
        ((), KEY | {"WANDB_MODE": "disabled"}),
    ],
)
def test_a_machine_that_alone_has_the_results_waits_ten_idle_minutes_for_the_connection(
    stores, environment
):
    assert idle_minutes_for(Machine(), stores, environment) == 10
    assert run_of().idle_minutes == 10


@pytest.mark.parametrize("stores", [(), ("s3://bucket",)])
def test_a_machine_that_is_kept_waits_thirty_idle_minutes_for_the_next_run(stores):
    assert idle_minutes_for(Machine(keep=True), stores, {}) == 30


@pytest.mark.parametrize(
    "path", sorted(resource_directory("sky").glob("*.yaml")), ids=lambda path: path.stem
)
def test_without_skymark_s_client_a_machine_waits_as_long(path):
    minutes = KEPT_IDLE_MINUTES if path.stem.startswith("cluster") else IDLE_MINUTES
    assert re.findall(r"idle_minutes: (\d+)", path.read_text()) == [str(minutes)]
