"""The lifecycle of a run in a place that does what a test tells it: stages, order, guarantees."""

from __future__ import annotations

import io
import os
import signal
import time
from dataclasses import FrozenInstanceError, dataclass, field
from pathlib import Path
from types import MappingProxyType

import pytest

from skymark.cloud.cost.bill import Bill
from skymark.cloud.lifecycle.results import ReturnedResults
from skymark.cloud.lifecycle.stages import (
    Callbacks,
    Ended,
    Finished,
    InterruptAnswer,
    Kept,
    Left,
    Quoted,
    Rented,
    Retrieved,
    carry_out,
)
from skymark.cloud.machine_script import stall_token
from skymark.cloud.sky.jobs import JobEnd
from skymark.model.errors import CloudError, StillBillingError, UsageError
from skymark.store.storing import stalled
from tests.rented_runs import run_of
from tests.unit.cloud.lifecycle.test_following import ScriptedJob
from tests.unit.rundir.past_runs import cell, plan


@dataclass
class ScriptedPlace:
    """A place that notes what is asked of it. Implements `Place`."""

    can_be_left: bool = True
    outlived_by_results: bool = False
    job: ScriptedJob = field(default_factory=lambda: ScriptedJob(shows=[0]))
    faults: dict[str, BaseException] = field(default_factory=dict)
    """What a call raises, by its name."""
    safe: bool = True
    """Whether results are verified somewhere else once they were retrieved."""
    asked: list[str] = field(default_factory=list)

    def _ask(self, name):
        self.asked.append(name)
        if name in self.faults:
            raise self.faults[name]

    def claim(self, quoted):
        if "claim" in self.faults:
            raise self.faults["claim"]

    def rent(self, quoted, callbacks):
        self._ask("rent")
        return Rented(quoted.run, self.job, None)

    def stop(self, quoted, rented, callbacks):
        self._ask("stop")
        return Finished(quoted.run, begun=rented is not None, interrupted=True)

    def take_back(self):
        self._ask("take back")

    def retrieve(self, finished, results):
        self._ask("retrieve")
        found = ReturnedResults(directory=results, records={}, missing=(), differing=(), phases=())
        return Retrieved(finished, found, problems=("something lacks",), safe=self.safe)

    def keep(self, retrieved):
        self._ask("keep")
        return Kept(retrieved, 10, 0.8)

    def end(self, finished, callbacks):
        self._ask("end")
        return 2.0

    def bill(self, run):
        self._ask("bill")
        return Bill(hourly_price_usd=1.0, seconds=36.0, price_usd=0.01)


class InterruptedJob(ScriptedJob):
    """A job whose user presses Ctrl-C while it runs."""

    def ended(self):
        raise KeyboardInterrupt


QUOTED = Quoted(run_of(), plan([cell()]), MappingProxyType({}))


def carried_out(place, choice=InterruptAnswer.STOP):
    callbacks = Callbacks(io.StringIO())
    callbacks.choose = lambda run: choice
    return carry_out(QUOTED, place, callbacks, Path("nowhere"))


def interrupt():
    raise KeyboardInterrupt


def test_results_are_home_before_the_machine_is_ended_and_billed():
    place = ScriptedPlace()
    ended = carried_out(place)
    assert place.asked == ["rent", "retrieve", "end", "bill"]
    assert isinstance(ended, Ended)
    assert (ended.retrieved.finished.end, ended.gone_after_s) == (JobEnd.SUCCEEDED, 2.0)
    assert ended.problems == ("something lacks",)
    assert not ended.all_well


def test_from_a_store_results_come_after_the_machine_is_gone():
    place = ScriptedPlace(outlived_by_results=True)
    carried_out(place)
    assert place.asked == ["rent", "end", "retrieve", "bill"]


def test_from_a_store_they_come_also_where_the_machine_does_not_end():
    place = ScriptedPlace(outlived_by_results=True, faults={"end": StillBillingError("there")})
    with pytest.raises(StillBillingError):
        carried_out(place)
    assert place.asked[-2:] == ["end", "retrieve"]


def test_a_machine_that_does_not_come_up_is_ended_and_the_reason_is_a_problem():
    place = ScriptedPlace(faults={"rent": CloudError("no capacity")})
    ended = carried_out(place)
    assert "end" in place.asked
    assert ended.problems[0] == "no capacity"
    assert not ended.retrieved.finished.begun


def test_a_wrong_order_is_no_problem_of_a_run_but_an_error_and_leaves_no_machine():
    place = ScriptedPlace(faults={"rent": UsageError("no such machine")})
    with pytest.raises(UsageError):
        carried_out(place)
    assert place.asked == ["rent", "end"]


def test_a_failed_run_says_so_and_its_results_come_home():
    place = ScriptedPlace(job=ScriptedJob(shows=[100]))
    ended = carried_out(place)
    assert ended.retrieved.finished.end is JobEnd.FAILED
    assert "skymark-cpu-1" in ended.problems[0]
    assert place.asked == ["rent", "retrieve", "end", "bill"]


def test_ctrl_c_stops_the_run_brings_home_what_there_is_and_ends_the_machine():
    place = ScriptedPlace(faults={"rent": KeyboardInterrupt()})
    ended = carried_out(place)
    assert place.asked == ["rent", "stop", "take back", "retrieve", "end", "bill"]
    assert ended.interrupted


def test_a_run_that_is_left_going_is_not_touched():
    place = ScriptedPlace(faults={"rent": KeyboardInterrupt()})
    assert carried_out(place, InterruptAnswer.LEAVE) == Left(QUOTED.run)
    assert place.asked == ["rent"]


def test_a_run_that_cannot_be_left_is_stopped_without_a_question():
    place = ScriptedPlace(can_be_left=False, faults={"rent": KeyboardInterrupt()})
    assert carried_out(place, InterruptAnswer.LEAVE).interrupted
    assert "stop" in place.asked


@pytest.mark.parametrize("step", ["stop", "take back"])
def test_a_second_ctrl_c_before_there_is_a_job_ends_the_machine(step):
    place = ScriptedPlace(faults={"rent": KeyboardInterrupt(), step: KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        carried_out(place)
    assert place.asked[-1] == "end"


def test_a_second_ctrl_c_while_the_run_stops_still_brings_home_what_there_is():
    place = ScriptedPlace(job=InterruptedJob(shows=[1]), faults={"stop": KeyboardInterrupt()})
    ended = carried_out(place)
    assert place.asked == ["rent", "stop", "retrieve", "end", "bill"]
    assert ended.interrupted


def test_a_request_that_cannot_be_taken_back_still_ends_the_machine():
    faults = {"rent": CloudError("no answer"), "take back": CloudError("the server is away")}
    place = ScriptedPlace(faults=faults)
    with pytest.raises(CloudError):
        carried_out(place)
    assert place.asked == ["rent", "take back", "end"]


def test_a_machine_is_kept_that_has_what_is_verified_nowhere_else():
    place = ScriptedPlace(safe=False)
    kept = carried_out(place)
    assert place.asked == ["rent", "retrieve", "keep"]
    assert isinstance(kept, Kept)
    assert not kept.all_well


def test_ctrl_c_while_results_come_home_waits_until_they_are_here():
    place = ScriptedPlace()
    place.retrieve = interrupted(place.retrieve, times=1)
    ended = carried_out(place)
    assert place.asked == ["rent", "retrieve", "end", "bill"]
    assert isinstance(ended, Ended)
    assert ended.interrupted
    assert ended.results is not None


def test_a_second_ctrl_c_while_results_come_home_keeps_the_machine():
    place = ScriptedPlace()
    place.retrieve = interrupted(place.retrieve, times=2)
    kept = carried_out(place)
    assert place.asked == ["rent", "keep"]
    assert isinstance(kept, Kept)
    assert kept.interrupted
    assert "the download" in kept.problems[0]


def interrupted(call, times):
    def interrupt_and_call(*arguments):
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
        return call(*arguments)

    return interrupt_and_call


def test_a_name_that_another_launch_has_is_refused_and_its_machine_not_touched():
    place = ScriptedPlace(faults={"claim": UsageError("in use")})
    with pytest.raises(UsageError):
        carried_out(place)
    assert place.asked == []


def test_a_stage_is_never_changed():
    finished = Finished(QUOTED.run)
    with pytest.raises(FrozenInstanceError):
        finished.interrupted = True
    assert finished.with_problem("one").problems == ("one",)
    assert finished.problems == ()


class UnstoredJob(ScriptedJob):
    """A job that waits for a store."""

    def show(self, log):
        log.write(f"{stalled(stall_token())} s3://results/run")
        time.sleep(60)


@pytest.mark.parametrize("outlived", [True, False])
def test_what_a_store_does_not_take_comes_from_the_machine_and_counts_as_no_success(outlived):
    place = ScriptedPlace(outlived_by_results=outlived, job=UnstoredJob())
    ended = carried_out(place)
    assert place.asked == ["rent", "retrieve", "end", "bill"]
    assert ended.retrieved.finished.end is JobEnd.UNSTORED
    assert not ended.all_well
    assert f"{JobEnd.UNSTORED}: " in ended.problems[0]


def test_what_is_neither_stored_nor_home_keeps_its_machine():
    place = ScriptedPlace(outlived_by_results=True, job=UnstoredJob(), safe=False)
    assert isinstance(carried_out(place), Kept)
    assert place.asked == ["rent", "retrieve", "keep"]
