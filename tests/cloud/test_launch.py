"""The real SkyPilot on the simulated cloud: launch, fail over, notice a preemption, clean up."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.cloud.conftest import Client

pytestmark = pytest.mark.cloud

HOURLY_PRICE_USD = 23.92
"""Of eight H100 in the catalogue that the tests use."""


@pytest.fixture(scope="module")
def launched(client: Client) -> Iterator[tuple[Client, str]]:
    """A cluster whose first region had no machine left, with what its launch said."""
    client.world.cloud.run_short("gpu_8x_h100_sxm5", times=1)
    said = client.sky(
        *("launch", "--yes", "--cluster", "one", "--infra", "lambda", "--gpus", "H100:8"),
        *("--down", "--idle-minutes-to-autostop", "10"),
        "echo devices=$CUDA_VISIBLE_DEVICES rank=$SKYPILOT_NODE_RANK; touch ~/sky_workdir_result",
    )
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
    launches = [call for call in client.world.api.calls if call.path.endswith("/launch")]
    assert [call.status for call in launches] == [400, 200]
    refused, accepted = (call.body["region_name"] for call in launches)
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
    assert client.clusters() == {"one": "UP"}
    (instance,) = client.world.preempt("one")
    assert client.clusters() == {}
    (line,) = [line for line in client.world.cloud.bill() if line.id == instance.id]
    assert line.ended_s is not None
    assert line.preempted


def test_an_idle_machine_ends_itself(client: Client, eventually: Callable[..., None]) -> None:
    client.sky(
        *("launch", "--yes", "--cluster", "two", "--infra", "lambda", "--gpus", "H100:1"),
        *("--down", "--idle-minutes-to-autostop", "1", "true"),
    )
    (instance,) = client.world.hired("two")
    address = instance.machine.address
    eventually(instance.gone.is_set, timeout_s=240)
    (end,) = [call for call in client.world.api.calls if call.path.endswith("/terminate")]
    assert (end.client, end.status) == (address, 200)
    assert client.clusters() == {}
