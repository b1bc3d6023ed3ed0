"""The real SkyPilot on the simulated cloud: launch, fail over, notice a preemption, clean up."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from skymark.cloud.rehearsal.lambda_cloud import Instance
from tests.cloud.conftest import Client

pytestmark = pytest.mark.cloud

HOURLY_PRICE_USD = 23.92
"""Of eight H100 in the catalogue that the tests use."""


LAUNCH = ("launch", "--yes", "--infra", "lambda", "--down")


@pytest.fixture(scope="module")
def idle(client: Client) -> tuple[Client, Instance]:
    """A machine whose only job is done, and that is to end itself after a minute."""
    client.sky(*LAUNCH, "-c", "idle", "--gpus", "H100:1", "-i", "1", "true")
    (instance,) = client.world.hired("idle")
    return client, instance


@pytest.fixture(scope="module")
def launched(idle: tuple[Client, Instance]) -> Iterator[tuple[Client, str]]:
    """A cluster whose first region had no machine left, with what its launch said."""
    client, _ = idle
    client.world.cloud.run_short("gpu_8x_h100_sxm5", times=1)
    job = "echo devices=$CUDA_VISIBLE_DEVICES rank=$SKYPILOT_NODE_RANK"
    said = client.sky(*LAUNCH, "-c", "one", "--gpus", "H100:8", "-i", "10", job)
    yield client, said
    for instance in client.world.hired("one"):
        client.world.cloud.preempt(instance.id)


def test_a_job_runs_to_its_end_on_every_gpu_that_was_asked_for(
    launched: tuple[Client, str],
) -> None:
    _, said = launched
    assert "devices=0,1,2,3,4,5,6,7 rank=0" in said
    assert "Job finished (status: SUCCEEDED)" in said


def test_a_region_without_capacity_makes_it_take_the_next(launched: tuple[Client, str]) -> None:
    client, _ = launched
    calls = [call for call in client.world.api.calls if call.path.endswith("/launch")]
    ours = [call for call in calls if call.body["name"].startswith("one-")]
    assert [call.status for call in ours] == [400, 200]
    refused, accepted = (call.body["region_name"] for call in ours)
    assert refused != accepted
    (instance,) = client.world.hired("one")
    assert instance.region == accepted


def test_the_bill_has_the_price_of_the_catalogue(launched: tuple[Client, str]) -> None:
    client, _ = launched
    (line,) = [line for line in client.world.cloud.bill() if line.name.startswith("one-")]
    assert line.hourly_price_usd == HOURLY_PRICE_USD
    assert line.cost_usd == pytest.approx(line.seconds / 3600 * HOURLY_PRICE_USD)


def test_a_preempted_machine_is_noticed_and_costs_no_more(launched: tuple[Client, str]) -> None:
    client, _ = launched
    assert client.clusters()["one"] == "UP"
    (instance,) = client.world.preempt("one")
    assert "one" not in client.clusters()
    (line,) = [line for line in client.world.cloud.bill() if line.id == instance.id]
    assert line.ended_s is not None
    assert line.preempted


def test_an_idle_machine_ends_itself(
    idle: tuple[Client, Instance], eventually: Callable[..., None]
) -> None:
    client, instance = idle
    eventually(instance.gone.is_set, timeout_s=240)
    ends = [call for call in client.world.api.calls if call.path.endswith("/terminate")]
    (end,) = [call for call in ends if instance.id in call.body["instance_ids"]]
    assert (end.client, end.status) == (instance.machine.address, 200)
    assert client.clusters() == {}
