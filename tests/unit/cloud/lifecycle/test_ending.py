"""Machines of the simulated provider are ended, and nobody believes that they are gone too soon."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, field

import pytest

from sky_rehearsal.lambda_cloud import InstanceType, LambdaCloud, RefusedError
from skymark.cloud.known_machines import RentedMachines, all_rented, forget, note_rented, rented
from skymark.cloud.lifecycle.ending import Patience, named_where_left, until_gone
from skymark.model.errors import CloudError, StillBillingError

NAME = "skymark-cpu-1"
A6000 = InstanceType("gpu_1x_a6000", 0.8, 14, 100, 1, "A6000", ("east",))
QUICK = Patience(
    limit_s=20.0,
    learn_s=5.0,
    silent_s=1.5,
    pause_s=0.02,
    told_s=0.4,
    look_s=0.02,
    quiet_s=0.8,
    dropped_s=0.1,
)
"""The usual patience, fifty times as quick; only the limit is generous."""
HOPELESS = Patience(
    limit_s=2.0, pause_s=0.02, told_s=0.3, silent_s=0.5, look_s=0.02, quiet_s=0.8, dropped_s=0.1
)
"""With `counted_looks` its limit is a number of looks, however slow the machine is."""


class SleptTime:
    """Time of an ending that only its own sleeps advance."""

    time = staticmethod(time.time)

    def __init__(self):
        self._slept_s = 0.0

    def monotonic(self):
        return self._slept_s

    def sleep(self, seconds):
        time.sleep(seconds)
        self._slept_s += seconds


@pytest.fixture
def counted_looks(monkeypatch):
    monkeypatch.setattr("skymark.cloud.lifecycle.ending.time", SleptTime())


class SlowMachine:
    """Takes a moment to end, in which the provider lists it as about to."""

    address = "10.0.0.1"

    def kill(self):
        time.sleep(0.1)


@dataclass
class CloudsList:
    """A simulated cloud's own list. Implements `Provider`."""

    cloud: LambdaCloud
    askable: bool = True
    silent: bool = False

    def can_be_asked(self, machines):
        return self.askable

    def look(self, machines):
        if self.silent:
            raise CloudError("lambda did not answer")
        return {one.id: one.status != "terminating" for one in self.cloud.listed()}

    def end(self, machines):
        if self.silent:
            raise CloudError("lambda did not answer")
        try:
            self.cloud.terminate([one.id for one in self.cloud.listed()])
        except RefusedError as refusal:
            raise CloudError(str(refusal)) from refusal


@dataclass
class SkyPilotLike:
    """Ends a cluster as SkyPilot does: it asks for what is listed and drops its record.

    Implements `Endable`.
    """

    cloud: LambdaCloud
    machines: RentedMachines | None
    faults: list[Exception] = field(default_factory=list)
    """Raised one after another, by each attempt to end; the last one stays."""
    name: str = NAME
    rents_again: bool = False
    away: bool = False
    """Whether its server is, which has the record."""
    hangs: threading.Event | None = None

    def rented(self):
        if self.away:
            raise CloudError("the server is away")
        return self.machines

    def end(self):
        if self.hangs is not None:
            self.hangs.wait()
        if self.away:
            raise CloudError("the server is away")
        if self.faults:
            fault = self.faults[0]
            if len(self.faults) > 1:
                self.faults.pop(0)
            raise fault
        if self.machines is None:
            return False
        self.cloud.terminate([one.id for one in self.cloud.listed()])
        self.machines = None
        return True


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SKYMARK_CACHE", str(tmp_path))


@pytest.fixture
def cloud():
    cloud = LambdaCloud({A6000.name: A6000}, lambda *_: SlowMachine())
    cloud.ssh_keys["me"] = "ssh-ed25519 AAAA"
    yield cloud
    cloud.close()


@pytest.fixture
def instance(cloud):
    instance = cloud.launch(A6000.name, "east", f"{NAME}-head", ["me"])
    assert instance.booted.wait(60)
    return instance


def facts(instance):
    return RentedMachines(
        name=NAME, cluster=NAME, ids=(instance.id,), kind="1 × a6000", hourly_price_usd=0.8
    )


def ended(skypilot, provider=None, patience=QUICK):
    said = []
    gone = until_gone(skypilot, provider or CloudsList(skypilot.cloud), said.append, patience)
    return gone, said


def test_a_machine_that_ends_is_gone_when_the_provider_has_ended_it(cloud, instance):
    gone, said = ended(SkyPilotLike(cloud, facts(instance)))
    assert gone.proved
    assert instance.ended_s is not None
    assert said[-1] == gone.of(NAME)
    assert said[-1].startswith(f"{NAME} is gone")
    assert all_rented() == []


def test_a_provider_that_says_yes_and_does_nothing_is_told_again(cloud, instance):
    cloud.ignore_terminations(2)
    gone, _ = ended(SkyPilotLike(cloud, facts(instance)))
    assert gone.proved
    assert instance.ended_s is not None


def test_a_provider_that_lists_nothing_for_a_while_is_not_believed(cloud, instance):
    cloud.list_nothing(0.5)
    gone, _ = ended(SkyPilotLike(cloud, facts(instance)))
    assert gone.proved
    assert instance.ended_s is not None


def test_a_provider_that_refuses_for_a_while_is_told_until_it_does(cloud, instance):
    cloud.refuse_to_terminate(3)
    gone, said = ended(SkyPilotLike(cloud, facts(instance), faults=[CloudError("boom")]))
    assert gone.proved
    assert instance.ended_s is not None
    assert any("did not terminate" in line for line in said)


def test_a_server_of_skypilot_that_is_gone_does_not_keep_the_machine(cloud, instance):
    note_rented(facts(instance))
    gone, _ = ended(SkyPilotLike(cloud, None, away=True))
    assert gone.proved
    assert instance.ended_s is not None


@pytest.mark.parametrize("fault", [RuntimeError("boom"), Exception("LambdaCloudError: boom")])
def test_whatever_skypilot_raises_does_not_keep_the_machine(cloud, instance, fault):
    gone, _ = ended(SkyPilotLike(cloud, facts(instance), faults=[fault]))
    assert gone.proved
    assert instance.ended_s is not None


def test_a_server_of_skypilot_that_never_answers_does_not_keep_the_machine(cloud, instance):
    forever = threading.Event()
    try:
        gone, _ = ended(SkyPilotLike(cloud, facts(instance), hangs=forever))
    finally:
        forever.set()
    assert gone.proved
    assert instance.ended_s is not None


@pytest.mark.usefixtures("counted_looks")
def test_a_machine_that_stays_is_named_with_its_id_its_price_and_the_command(cloud, instance):
    cloud.ignore_terminations()
    with pytest.raises(StillBillingError) as raised:
        ended(SkyPilotLike(cloud, facts(instance)), patience=HOPELESS)
    told = str(raised.value)
    assert "STILL THERE" in told
    for fact in (instance.id, "$0.80/h", f"skymark down {NAME}"):
        assert fact in told
    assert rented(NAME).not_ended_since is not None


@pytest.mark.usefixtures("counted_looks")
def test_where_nobody_answers_a_machine_is_not_called_gone(cloud, instance):
    note_rented(facts(instance))
    provider = CloudsList(cloud, silent=True)
    with pytest.raises(StillBillingError, match="NOT PROVED GONE") as raised:
        ended(SkyPilotLike(cloud, None, away=True), provider, HOPELESS)
    for fact in (instance.id, "$0.80/h", f"skymark down {NAME}"):
        assert fact in str(raised.value)


def test_where_the_provider_cannot_be_asked_it_is_skypilot_s_word_and_says_so(cloud, instance):
    skypilot = SkyPilotLike(cloud, facts(instance))
    gone, said = ended(skypilot, CloudsList(cloud, askable=False))
    assert not gone.proved
    assert "cannot be asked" in said[-1]
    assert not any("is gone" in line for line in said)


@pytest.mark.usefixtures("counted_looks")
def test_where_the_provider_cannot_be_asked_either_nothing_is_called_gone(cloud, instance):
    provider = CloudsList(cloud, askable=False)
    skypilot = SkyPilotLike(cloud, facts(instance), away=True)
    with pytest.raises(StillBillingError, match="server is away"):
        ended(skypilot, provider, HOPELESS)


@pytest.mark.usefixtures("counted_looks")
def test_a_managed_job_is_not_over_before_skypilot_says_so(cloud, instance):
    note_rented(facts(instance))
    with pytest.raises(StillBillingError, match="NOT PROVED GONE"):
        ended(SkyPilotLike(cloud, None, away=True, rents_again=True), patience=HOPELESS)


def test_what_was_never_rented_is_soon_done_with(cloud):
    gone, said = ended(SkyPilotLike(cloud, None))
    assert (gone.proved, gone.known) == (False, False)
    assert said[-1] == gone.of(NAME)


def test_ctrl_c_says_what_remains_and_ends_it_all_the_same(cloud, instance):
    said = []

    def say(line):
        said.append(line)

    class Interrupted(CloudsList):
        def look(self, machines):
            if not said:
                os.kill(os.getpid(), signal.SIGINT)
            return super().look(machines)

    gone = until_gone(SkyPilotLike(cloud, facts(instance)), Interrupted(cloud), say, QUICK)
    assert gone.proved
    assert instance.ended_s is not None
    for fact in (instance.id, "$0.80/h", f"skymark down {NAME}", "Ctrl-C again"):
        assert fact in said[0]


def test_a_second_ctrl_c_leaves_and_names_what_remains(cloud, instance):
    cloud.ignore_terminations()

    class Impatient(CloudsList):
        def look(self, machines):
            os.kill(os.getpid(), signal.SIGINT)
            return super().look(machines)

    with pytest.raises(StillBillingError) as raised:
        ended(SkyPilotLike(cloud, facts(instance)), Impatient(cloud))
    for fact in (instance.id, "$0.80/h", f"skymark down {NAME}", "interrupted"):
        assert fact in str(raised.value)


def test_a_closed_terminal_does_not_keep_the_machine(cloud, instance):
    def say(line):
        raise OSError(5, "Input/output error")

    cloud.ignore_terminations(1)
    gone = until_gone(SkyPilotLike(cloud, facts(instance)), CloudsList(cloud), say, QUICK)
    assert gone.proved
    assert instance.ended_s is not None


@pytest.mark.parametrize("way_out", [KeyboardInterrupt(), ValueError("boom")])
def test_on_every_way_out_a_machine_that_may_be_left_is_named(instance, way_out):
    note_rented(facts(instance))
    said = []
    with pytest.raises(type(way_out)), named_where_left(NAME, said.append):
        raise way_out
    for fact in (instance.id, "$0.80/h", f"skymark down {NAME}", "NOT PROVED GONE"):
        assert fact in said[0]
    forget(NAME)
    with pytest.raises(type(way_out)), named_where_left(NAME, pytest.fail):
        raise way_out
