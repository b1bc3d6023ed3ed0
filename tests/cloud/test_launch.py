"""The real SkyPilot on the simulated cloud: launch, fail over, notice a preemption, clean up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sky_rehearsal.lambda_cloud import Instance
from tests.cloud.conftest import Client
from tests.cloud.launches import skymark

pytestmark = [pytest.mark.cloud, pytest.mark.timeout(3600)]

HOURLY_PRICE_USD = 23.92
"""Of eight H100 in the catalogue that the tests use."""


LAUNCH = ("launch", "--yes", "--infra", "lambda")
ONE = "skymark-one"


@pytest.fixture(scope="module")
def idle(client: Client) -> tuple[Client, Instance]:
    """A machine whose only job is done, and that is to end itself after a minute."""
    client.sky(*LAUNCH, "-c", "idle", "--gpus", "H100:1", "--down", "-i", "1", "true")
    (instance,) = client.world.rented("idle")
    return client, instance


@pytest.fixture(scope="module")
def launched(idle: tuple[Client, Instance]) -> Iterator[tuple[Client, str]]:
    """A cluster without an idle timer, whose first region had no machine left, with what its
    launch said."""
    client, _ = idle
    client.world.cloud.run_short("gpu_8x_h100_sxm5", times=1)
    job = "echo devices=$CUDA_VISIBLE_DEVICES rank=$SKYPILOT_NODE_RANK"
    said = client.sky(*LAUNCH, "-c", ONE, "--gpus", "H100:8", job)
    yield client, said
    for instance in client.world.rented(ONE):
        client.world.cloud.preempt(instance.id)


def test_a_job_runs_to_its_end_on_every_gpu_that_was_asked_for(
    launched: tuple[Client, str],
) -> None:
    _, said = launched
    assert "devices=0,1,2,3,4,5,6,7 rank=0" in said
    assert "(status: SUCCEEDED)" in said


def test_a_region_without_capacity_makes_it_take_the_next(launched: tuple[Client, str]) -> None:
    client, _ = launched
    calls = [call for call in client.world.api.calls if call.path.endswith("/launch")]
    ours = [call for call in calls if call.body["name"].startswith(f"{ONE}-")]
    assert [call.status for call in ours] == [400, 200]
    refused, accepted = (call.body["region_name"] for call in ours)
    assert refused != accepted
    (instance,) = client.world.rented(ONE)
    assert instance.region == accepted


def test_the_bill_has_the_price_of_the_catalogue(launched: tuple[Client, str]) -> None:
    client, _ = launched
    (line,) = [line for line in client.world.cloud.bill() if line.name.startswith(f"{ONE}-")]
    assert line.hourly_price_usd == HOURLY_PRICE_USD
    assert line.cost_usd == pytest.approx(line.seconds / 3600 * HOURLY_PRICE_USD)


def test_the_doctor_names_a_machine_that_was_left_over(
    launched: tuple[Client, str], tmp_path: Path
) -> None:
    client, _ = launched
    for _ in range(10):  # a machine that is slow to answer is not UP until the next look
        told = skymark(client, "doctor", "--cloud", SKYMARK_CACHE=str(tmp_path))
        assert told.status == 1, told.output
        (line,) = [line for line in told.output.splitlines() if f"! {ONE}" in line]
        if "UP" in line:
            break
    assert line.startswith(f"! {ONE} is there: UP, ")
    assert f"${HOURLY_PRICE_USD}/h, " in line
    assert "no idle timer" in line
    assert line.endswith(f"skymark down {ONE}")


def test_a_preempted_machine_is_noticed_and_costs_no_more(
    launched: tuple[Client, str], eventually: Callable[..., None]
) -> None:
    client, _ = launched
    eventually(lambda: client.clusters().get(ONE) == "UP", timeout_s=180)
    (instance,) = client.world.preempt(ONE)
    eventually(lambda: ONE not in client.clusters(), timeout_s=240)
    (line,) = [line for line in client.world.cloud.bill() if line.id == instance.id]
    assert line.ended_s is not None
    assert line.preempted


def test_an_idle_machine_ends_itself(
    idle: tuple[Client, Instance], eventually: Callable[..., None]
) -> None:
    client, instance = idle
    eventually(instance.gone.is_set, timeout_s=240)
    ends = [call for call in client.world.api.calls if call.path.endswith("/terminate")]
    ours = [call for call in ends if instance.id in call.body["instance_ids"]]
    # It says so again as long as it lives.
    assert {(call.client, call.status) for call in ours} == {(instance.machine.address, 200)}
    assert client.clusters() == {}


def test_the_doctor_names_enabled_providers(client: Client, tmp_path: Path) -> None:
    # Other tests of this cloud kill commands, which leave notes of machines behind.
    told = skymark(client, "doctor", "--cloud", "--json", SKYMARK_CACHE=str(tmp_path))
    assert told.status == 0, told.output
    found = json.loads(told.output)
    states = {one["name"]: one["state"] for one in found["providers"]}
    assert (states["lambda"], states["vast"]) == ("enabled", "no credentials")
    assert (found["machines"], found["problems"]) == ([], [])
