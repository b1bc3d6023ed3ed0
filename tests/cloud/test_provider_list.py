"""The provider's own list, asked by SkyPilot's code of the simulated Lambda Cloud over HTTP."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from sky_rehearsal.lambda_cloud import Instance
from skymark.cli.machines import status
from skymark.cloud.known_machines import ProviderAddress, RentedMachines, all_rented, note_rented
from skymark.cloud.known_machines import rented as known
from skymark.cloud.lifecycle.ending import (
    Disappearance,
    EndableCluster,
    Patience,
    is_gone,
    until_gone,
)
from skymark.cloud.machines import forgotten_machines
from skymark.cloud.sky import client
from skymark.cloud.sky.catalogue import at_told_price, told_prices_usd, with_told_prices
from skymark.cloud.sky.clusters import ProviderList
from skymark.cloud.waiting import clock_s
from skymark.model.errors import CloudError, StillBillingError, UsageError
from tests.unit.cloud.cost.conftest import offer, quote_of
from tests.unit.sky_rehearsal.test_lambda_api import Provider

pytestmark = [
    pytest.mark.cloud,
    # SkyPilot's own imports warn.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

NAME = "skymark-cpu-1"
QUICK = Patience(pause_s=0.1, told_s=1.0, look_s=0.1, quiet_s=2.0, dropped_s=0.3)
MACHINES = RentedMachines(
    name=NAME,
    cluster=NAME,
    kind="1 × gpu_8x of lambda/east",
    hourly_price_usd=36.0,
    address=ProviderAddress(provider="lambda", name="box", settings={"region": "east"}),
)


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """A simulated cloud that SkyPilot's part for Lambda takes for the real one."""
    from sky.provision.lambda_cloud import instance, lambda_utils

    provider = Provider()
    port = provider.api.server_address[1]
    keys = tmp_path / ".lambda_cloud" / "lambda_keys"
    keys.parent.mkdir()
    keys.write_text("api_key = key\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SKYMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(lambda_utils, "API_ENDPOINT", f"http://127.0.0.1:{port}/api/v1")
    monkeypatch.setattr(instance, "_lambda_client", None)
    with provider.api:
        provider.call("/ssh-keys", {"name": "me", "public_key": "ssh-ed25519 AAAA"})
        yield provider
        provider.cloud.close()


@pytest.fixture
def rented(provider: Provider) -> Instance:
    return provider.cloud._instances[provider.launched()]


@pytest.fixture
def server_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """SkyPilot's API server: of this machine, not there, and never started."""
    from sky.server import common

    monkeypatch.delenv("SKYPILOT_API_SERVER_ENDPOINT", raising=False)
    monkeypatch.setenv("SKYPILOT_API_SERVER_LOCAL_PORT", "1")
    monkeypatch.setenv("SKYPILOT_DISABLE_LOCAL_API_SERVER", "1")
    remembered = (common.get_server_url, common.is_api_server_local)
    for one in remembered:
        one.cache_clear()
    yield
    for one in remembered:
        one.cache_clear()


class Forgotten:
    """A cluster of which SkyPilot has dropped its record. Implements `Endable`."""

    name = NAME
    rents_again = False

    def rented(self) -> RentedMachines:
        return MACHINES

    def end(self) -> bool:
        return False


def test_the_list_tells_what_runs_and_what_is_about_to_end(
    provider: Provider, rented: Instance
) -> None:
    listed = ProviderList()
    assert listed.can_be_asked(MACHINES)
    assert listed.look(MACHINES) == {rented.id: True}
    rented.status = "terminating"
    assert listed.look(MACHINES) == {rented.id: False}
    rented.status = "active"
    listed.end(MACHINES)
    provider.cloud.await_gone(rented.id)
    assert listed.look(MACHINES) == {}


def test_machines_of_other_names_are_not_touched(provider: Provider, rented: Instance) -> None:
    others = MACHINES.model_copy(
        update={"address": ProviderAddress(provider="lambda", name="bo", settings={})}
    )
    assert ProviderList().look(others) == {}
    ProviderList().end(others)
    assert rented.status == "active"


def test_whatever_the_provider_s_part_of_skypilot_raises_is_no_answer(provider: Provider) -> None:
    provider.api.break_down(60)
    with pytest.raises(CloudError, match="boom"):
        ProviderList().look(MACHINES)
    with pytest.raises(CloudError, match="boom"):
        ProviderList().end(MACHINES)


def test_without_an_address_or_with_the_server_elsewhere_the_provider_cannot_be_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not ProviderList().can_be_asked(MACHINES.model_copy(update={"address": None}))
    from sky.server import common

    monkeypatch.setenv("SKYPILOT_API_SERVER_ENDPOINT", "http://sky.example:46580")
    remembered = (common.get_server_url, common.is_api_server_local)
    for one in remembered:
        one.cache_clear()
    try:
        assert not ProviderList().can_be_asked(MACHINES)
    finally:
        for one in remembered:
            one.cache_clear()


@pytest.mark.parametrize("fault", ["ignores", "lists nothing", "500", "refuses"])
def test_a_machine_that_skypilot_has_forgotten_is_ended_whatever_its_provider_does_first(
    provider: Provider, rented: Instance, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.clock.now_s = 0.0
    patience = QUICK
    if fault == "ignores":
        provider.cloud.ignore_terminations(2)
    elif fault == "lists nothing":
        provider.cloud.list_nothing(1.0)
        provider.pass_s(1.5, after_s=1.5)
        # Much longer than the list lacks it; that it is about to end is seen, and proves it sooner.
        patience = replace(QUICK, quiet_s=20.0)
        monkeypatch.setattr(rented.machine, "kill", lambda: time.sleep(1.0))
    elif fault == "500":
        provider.api.break_down(1.5)
    else:
        provider.cloud.refuse_to_terminate(2)
    said: list[str] = []
    gone = until_gone(Forgotten(), ProviderList(), said.append, patience)
    assert gone.proved
    assert rented.ended_s is not None, said


def test_a_machine_that_is_not_proved_gone_stays_in_the_status(
    provider: Provider, rented: Instance
) -> None:
    left = MACHINES.model_copy(update={"not_ended_since": datetime.now(UTC)})
    note_rented(left)
    (shown,) = forgotten_machines(set(), refresh=True)
    assert (shown.name, shown.status.partition(",")[0]) == (NAME, "running")
    assert shown.hourly_price_usd == 36.0
    assert list(forgotten_machines({NAME}, refresh=True)) == []
    provider.cloud.list_nothing(60)
    assert [one.status for one in forgotten_machines(set(), refresh=True)] == ["not proved gone"]
    provider.api.break_down(60)
    (shown,) = forgotten_machines(set(), refresh=True)
    assert shown.status.startswith("not proved gone")
    assert "(lambda: " in shown.status


def test_a_machine_that_ended_itself_is_soon_forgotten_and_one_that_runs_is_not(
    provider: Provider, rented: Instance
) -> None:
    note_rented(MACHINES)
    (shown,) = forgotten_machines(set(), refresh=True)
    assert shown.status.startswith("running")
    provider.cloud.preempt(rented.id)
    assert list(forgotten_machines(set(), refresh=True)) == []
    assert known(NAME).absent_since_s is not None, "one look proves nothing"
    note_rented(MACHINES.model_copy(update={"absent_since_s": clock_s() - 3600}))
    assert list(forgotten_machines(set(), refresh=True)) == []
    assert all_rented() == []


def test_a_machine_counts_as_gone_when_its_list_has_lacked_it_for_long(
    provider: Provider, rented: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = partial(Disappearance, quiet_s=2.5)
    monkeypatch.setattr("skymark.cloud.lifecycle.ending.Disappearance", quick)
    assert not is_gone(NAME), "nobody knows it"
    note_rented(MACHINES)
    assert not is_gone(NAME), "it runs"
    provider.cloud.preempt(rented.id)
    began_s = time.monotonic()
    assert is_gone(NAME)
    assert time.monotonic() - began_s >= 2.5
    provider.api.break_down(60)
    assert not is_gone(NAME), "its provider does not answer"


def test_a_key_that_is_revoked_is_named_and_not_only_the_refusal(
    provider: Provider, tmp_path: Path
) -> None:
    (tmp_path / ".lambda_cloud" / "lambda_keys").write_text("api_key = revoked\n")
    with pytest.raises(CloudError, match=r"\blambda\b.*`skymark doctor --cloud`"):
        ProviderList().look(MACHINES)


@pytest.mark.parametrize("listed", ["running", "not listed by its provider", "unknown"])
def test_without_an_api_server_the_noted_machines_are_shown_at_once(
    provider: Provider,
    rented: Instance,
    listed: str,
    server_away: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(client, "request", pytest.fail)  # it waits for a server that restarts
    if listed.startswith("not"):
        provider.cloud.preempt(rented.id)
    note_rented(MACHINES.model_copy(update={"address": None} if listed == "unknown" else {}))
    assert status() == 1
    out, err = capsys.readouterr()
    assert NAME in out
    assert listed in out
    assert re.search(r"\bAPI server\b.*\bapi start`", err)


def test_without_an_api_server_a_machine_is_ended_and_a_refused_key_is_said(
    provider: Provider,
    rented: Instance,
    server_away: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(client, "AWAY_S", 0.0)
    monkeypatch.setattr(client, "RETRY_S", 0.0)
    note_rented(MACHINES)
    keys = tmp_path / ".lambda_cloud" / "lambda_keys"
    keys.write_text("api_key = revoked\n")
    said: list[str] = []
    impatient = replace(QUICK, limit_s=3.0)
    with pytest.raises(StillBillingError, match="refuses the key"):
        until_gone(EndableCluster(NAME), ProviderList(), said.append, impatient)
    assert len(said) == len(set(said)), "no line is said twice"
    assert any("refuses the key" in line for line in said)
    assert rented.status == "active"


def test_a_quote_is_made_at_the_price_that_the_provider_tells(
    provider: Provider,
) -> None:
    quote = quote_of(
        offer(3.6, instance_type="gpu_1x"),
        offer(4.0, instance_type="gpu_2x", cloud="vast"),
        offer(36.0, instance_type="gpu_8x"),
    )
    provider.cloud.set_price("gpu_1x", 36.5)
    told = with_told_prices(quote)
    assert [
        (one.instance_type, one.hourly_price_usd, one.price_from, one.catalogue_price_usd)
        for one in told.offers
    ] == [
        ("gpu_2x", 4.0, "catalogue", None),
        ("gpu_8x", 36.0, "provider", 36.0),
        ("gpu_1x", 36.5, "provider", 3.6),
    ]


def test_a_provider_that_does_not_tell_keeps_the_catalogue_s_price_and_it_is_said(
    provider: Provider,
) -> None:
    provider.api.break_down(60)
    told = with_told_prices(quote_of(offer(3.6, instance_type="gpu_1x")))
    assert (told.cheapest.hourly_price_usd, told.cheapest.price_from) == (3.6, "catalogue")
    (problem,) = told.problems
    assert "boom" in problem


def test_rented_machines_get_the_price_that_their_provider_tells(provider: Provider) -> None:
    two = MACHINES.model_copy(update={"instance_type": "gpu_8x", "nodes": 2})
    provider.cloud.set_price("gpu_8x", 360.0)
    told = at_told_price(two)
    assert (told.hourly_price_usd, told.price_from) == (720.0, "provider")
    spot = at_told_price(two.model_copy(update={"spot": True}))
    assert (spot.hourly_price_usd, spot.price_from) == (36.0, "catalogue")
    provider.cloud.set_price("gpu_8x", 0.0)
    assert "gpu_8x" not in told_prices_usd("lambda"), "0 is no price"
    assert told_prices_usd("vast") == {}


def test_without_skypilot_s_server_a_machine_is_ended_past_it(
    provider: Provider, rented: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKYPILOT_DISABLE_LOCAL_API_SERVER", "1")
    monkeypatch.setattr(client, "AWAY_S", 1.0)
    note_rented(MACHINES)
    said: list[str] = []
    gone = until_gone(EndableCluster(NAME), ProviderList(), said.append, QUICK)
    assert gone.proved
    assert rented.ended_s is not None, said
    assert all_rented() == []


def test_what_skypilot_s_server_raises_as_any_type_is_an_error_of_the_cloud() -> None:
    with (
        pytest.raises(CloudError, match="asked: LambdaCloudError: boom"),
        client.explained("asked"),
    ):
        raise Exception("LambdaCloudError: boom")  # noqa: TRY002  # as the SDK raises it
    with pytest.raises(UsageError, match=r"^ours$"), client.explained("asked"):
        raise UsageError("ours")
