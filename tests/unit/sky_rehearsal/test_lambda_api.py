"""The simulated Lambda Cloud over HTTP, with machines that do nothing."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from sky_rehearsal.lambda_api import LambdaApi
from sky_rehearsal.lambda_cloud import InstanceType, LambdaCloud
from sky_rehearsal.requirements import RehearsalError

BIG = InstanceType("gpu_8x", 36.0, 208, 1800, 8, "H100", ("east", "west"))
SMALL = InstanceType("gpu_1x", 3.6, 26, 200, 1, "H100", ("east",))


class Clock:
    """Seconds that pass when told to."""

    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class StillMachine:
    """Stands for a machine where only the provider is looked at; the real one is slow to make."""

    address: str = "10.0.0.1"
    killed: list[str] = field(default_factory=list)

    def kill(self) -> None:
        self.killed.append(self.address)


class Provider:
    def __init__(self, start: Callable[..., StillMachine] = lambda *_: StillMachine()) -> None:
        self.clock = Clock()
        self.cloud = LambdaCloud({one.name: one for one in (BIG, SMALL)}, start, clock=self.clock)
        self.api = LambdaApi(self.cloud, "key", ("127.0.0.1", 0))

    def call(self, path: str, body: Any = None, key: str = "key", method: str | None = None) -> Any:
        """Return the answer's data, or the error's code."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.api.server_address[1]}/api/v1{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {key}"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                return json.load(error)["error"]["code"]

    def launch(self, type: str = "gpu_8x", region: str = "east") -> Any:
        body = {"instance_type_name": type, "region_name": region, "ssh_key_names": ["me"]}
        return self.call("/instance-operations/launch", {**body, "name": "box-head"})

    def pass_s(self, seconds: float, after_s: float) -> None:
        """Let time pass in the cloud after some of ours."""
        timer = threading.Timer(
            after_s, lambda: setattr(self.clock, "now_s", self.clock.now_s + seconds)
        )
        timer.daemon = True
        timer.start()

    def launched(self, **where: str) -> str:
        (id,) = self.launch(**where)["instance_ids"]
        assert self.cloud._instances[id].booted.wait(60)
        return id

    def status(self) -> list[str]:
        return [one["status"] for one in self.call("/instances")]


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()
    with provider.api:
        provider.call("/ssh-keys", {"name": "me", "public_key": "ssh-ed25519 AAAA"})
        yield provider
        provider.cloud.close()


def test_a_machine_is_rented_shown_and_given_back(provider: Provider) -> None:
    id = provider.launched()
    (shown,) = provider.call("/instances")
    assert (shown["id"], shown["name"], shown["status"]) == (id, "box-head", "active")
    assert shown["ip"] == "10.0.0.1"
    answer = provider.call("/instance-operations/terminate", {"instance_ids": [id]})
    assert [one["status"] for one in answer["terminated_instances"]] == ["terminating"]
    provider.cloud.await_gone(id)
    assert provider.call("/instances") == []
    assert provider.cloud._instances[id].machine.killed == ["10.0.0.1"]


def test_the_bill_is_the_seconds_lived_times_the_price(provider: Provider) -> None:
    first = provider.launched()
    provider.clock.now_s += 100
    second = provider.launched(type="gpu_1x")
    provider.cloud.preempt(first)
    provider.clock.now_s += 50
    bill = {line.id: line for line in provider.cloud.bill()}
    assert (bill[first].seconds, bill[first].cost_usd) == (100, pytest.approx(1.0))
    assert (bill[second].seconds, bill[second].cost_usd) == (50, pytest.approx(0.05))
    assert (bill[first].preempted, bill[second].preempted) == (True, False)
    assert bill[second].ended_s is None


def test_a_change_of_price_concerns_later_machines_only(provider: Provider) -> None:
    provider.launched(type="gpu_1x")
    provider.cloud.set_price("gpu_1x", 7.2)
    provider.launched(type="gpu_1x")
    assert [line.hourly_price_usd for line in provider.cloud.bill()] == [3.6, 7.2]
    shown = provider.call("/instance-types")["gpu_1x"]["instance_type"]
    assert shown["price_cents_per_hour"] == 720


def test_a_shortage_refuses_as_often_as_it_was_told_to(provider: Provider) -> None:
    provider.cloud.run_short("gpu_8x", "east", times=1)
    assert provider.launch() == "instance-operations/launch/insufficient-capacity"
    assert provider.launch()["instance_ids"]


def test_a_lasting_shortage_shows_in_the_listing_too(provider: Provider) -> None:
    provider.cloud.run_short(region="east")
    types = provider.call("/instance-types")
    offered = {name: shown["regions_with_capacity_available"] for name, shown in types.items()}
    assert offered == {"gpu_8x": [{"name": "west", "description": "west"}], "gpu_1x": []}
    assert provider.launch() == "instance-operations/launch/insufficient-capacity"
    provider.cloud.have_plenty()
    assert provider.launch()["instance_ids"]


def test_too_many_requests_are_refused_whatever_they_ask(provider: Provider) -> None:
    provider.api.limit_rate(2)
    answers = [provider.call("/instances") for _ in range(3)]
    assert answers == ["global/rate-limited", "global/rate-limited", []]


def test_a_boot_that_never_ends_can_be_given_back(provider: Provider) -> None:
    provider.cloud.delay_boots(float("inf"))
    (id,) = provider.launch()["instance_ids"]
    assert provider.status() == ["booting"]
    provider.call("/instance-operations/terminate", {"instance_ids": [id]})
    provider.cloud.await_gone(id)
    assert provider.cloud._instances[id].machine is None


def test_a_machine_that_refuses_to_end_stays_rented(provider: Provider) -> None:
    id = provider.launched()
    provider.cloud.refuse_to_terminate(times=1)
    terminate = ("/instance-operations/terminate", {"instance_ids": [id]})
    assert provider.call(*terminate) == "global/internal-error"
    assert provider.status() == ["active"]
    provider.call(*terminate)
    provider.cloud.await_gone(id)


def test_a_machine_that_does_not_come_up_is_unhealthy_and_still_costs() -> None:
    def fail(*_: object) -> StillMachine:
        raise RehearsalError("no disk")

    provider = Provider(fail)
    with provider.api:
        provider.call("/ssh-keys", {"name": "me", "public_key": "ssh-ed25519 AAAA"})
        provider.launched()
        provider.clock.now_s += 100
        assert provider.status() == ["unhealthy"]
        (line,) = provider.cloud.bill()
        assert line.cost_usd == pytest.approx(1.0)
        provider.cloud.close()


def test_a_wrong_key_an_unknown_type_and_an_unknown_path_are_refused(provider: Provider) -> None:
    assert provider.call("/instances", key="other") == "global/invalid-api-key"
    assert provider.launch(type="gpu_9x") == "global/object-does-not-exist"
    assert provider.launch(type="gpu_1x", region="west") == "global/object-does-not-exist"
    assert provider.call("/nothing") == "global/object-does-not-exist"
    assert provider.call("/ssh-keys", {"name": "me"}) == "global/invalid-parameters"


def test_firewall_rules_are_replaced_as_a_whole(provider: Provider) -> None:
    rule = {"protocol": "tcp", "port_range": [80, 80], "source_network": "0.0.0.0/0"}
    provider.call("/firewall-rules", {"data": [rule]}, method="PUT")
    assert provider.call("/firewall-rules") == [rule]


def test_every_call_is_kept_without_its_key(provider: Provider) -> None:
    provider.call("/instances")
    last = provider.api.calls[-1]
    assert (last.method, last.path, last.status) == ("GET", "/instances", 200)
    assert not any("key" in str(call.body) for call in provider.api.calls if call.method == "GET")


def test_closing_ends_every_machine_even_one_that_refuses() -> None:
    provider = Provider()
    with provider.api:
        provider.call("/ssh-keys", {"name": "me", "public_key": "ssh-ed25519 AAAA"})
        id = provider.launched()
        provider.cloud.refuse_to_terminate()
        provider.cloud.close()
    assert provider.cloud._instances[id].machine.killed == ["10.0.0.1"]


def test_a_termination_that_is_ignored_ends_nothing(provider: Provider) -> None:
    id = provider.launched()
    provider.cloud.ignore_terminations(1)
    provider.call("/instance-operations/terminate", {"instance_ids": [id]})
    assert provider.status() == ["active"]
    provider.call("/instance-operations/terminate", {"instance_ids": [id]})
    provider.cloud.await_gone(id)


def test_a_list_that_is_empty_for_a_while_has_its_machines_again(provider: Provider) -> None:
    provider.launched()
    provider.cloud.list_nothing(25)
    assert provider.status() == []
    provider.clock.now_s += 26
    assert provider.status() == ["active"]


def test_a_provider_that_breaks_down_answers_nothing_but_500(provider: Provider) -> None:
    provider.api.break_down(60)
    assert provider.call("/instances") == "global/internal-error"
    assert provider.call("/instance-types") == "global/internal-error"
    provider.api.break_down(0)
    assert provider.status() == []
