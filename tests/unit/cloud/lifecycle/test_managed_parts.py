"""Managed jobs that share a plan: what is on its way is known, also where some cannot begin.

SkyPilot's managed jobs are stood in for by a list, because they refuse nothing on demand.
"""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from skymark.cloud.lifecycle import managed
from skymark.cloud.lifecycle.managed import part_runs, submit_parts
from skymark.cloud.lifecycle.stages import SILENT, Quoted
from skymark.cloud.submissions import part_job_name
from skymark.model.errors import CloudError, NameTakenError, StillBillingError
from tests.rented_runs import run_of
from tests.scripted_suite import cell_of, plan_of
from tests.unit.cloud.cost.conftest import offer, quote_of

KEY = "0123456789ab"
PLAN = plan_of(cell_of("a"), cell_of("b"), cell_of("c"))


class Cloud:
    """What is asked of managed jobs, by the number of their part; and what they raise."""

    def __init__(self):
        self.asked = []
        self.raises = {}

    def place(self):
        return ScriptedPlace(self)

    def ask(self, call, run):
        self.asked.append((call, run.part))
        if (call, run.part) in self.raises:
            raise self.raises[call, run.part]


class ScriptedPlace:
    """Stands in for `ManagedPlace`."""

    def __init__(self, cloud):
        self.cloud = cloud

    def claim(self, quoted):
        self.cloud.ask("claim", quoted.run)

    def submit(self, quoted, callbacks):
        self.cloud.ask("submit", quoted.run)

    def early_timers(self, run):
        return nullcontext()

    def await_machine(self, quoted, callbacks):
        self.cloud.ask("await", quoted.run)

    def take_back(self):
        pass

    def end(self, finished, callbacks):
        self.cloud.ask("end", finished.run)


@pytest.fixture
def cloud(monkeypatch):
    made = Cloud()
    monkeypatch.setattr(managed, "ManagedPlace", made.place)
    return made


def parts(attempts):
    run = run_of(run_id="run", parts=3, max_cost_usd=12.0, deadline_s=3600)
    quote = quote_of(offer(1.0), num_nodes=len(attempts))
    each = (quote.duration.running,) * len(attempts)
    quote = quote.model_copy(update={"duration": quote.duration.model_copy(update={"each": each})})
    return part_runs(Quoted(run, PLAN, {}, 3600, quote, 2.0), KEY, attempts)


def submitted(cloud, attempts):
    going = []
    problems = submit_parts(parts(attempts), SILENT, going)
    return [one.run.part for one in going], problems


def test_each_job_has_its_part_of_one_plan_and_run_and_its_share_of_the_price():
    both = parts({0: 1, 2: 2})
    assert [one.name for one in both] == [
        part_job_name("run", KEY, 0, 3, 1),
        part_job_name("run", KEY, 2, 3, 2),
    ]
    assert {(one.run.run_id, one.plan.hash) for one in both} == {("run", PLAN.hash)}
    assert [(one.run.part, one.run.parts) for one in both] == [(0, 3), (2, 3)]
    assert {one.run.limits.max_cost_usd for one in both} == {6.0}
    assert {(one.limit_s, one.highest_hourly_price_usd) for one in both} == {(3600, 2.0)}
    assert sum(one.quote.cost.high_usd for one in both) == quote_of(offer(2.0)).cost.high_usd


def test_all_are_asked_for_before_a_machine_is_waited_for(cloud):
    assert submitted(cloud, {0: 1, 1: 1}) == ([0, 1], [])
    calls = ["claim", "submit"]
    assert cloud.asked == [*((call, part) for part in (0, 1) for call in calls),
                           ("await", 0), ("await", 1)]  # fmt: skip


def test_after_a_refusal_none_is_asked_for_and_those_before_it_go_on(cloud):
    cloud.raises["submit", 1] = CloudError("no quota")
    assert submitted(cloud, {0: 1, 1: 1, 2: 1}) == ([0], ["no quota"])
    assert ("end", 1) in cloud.asked
    assert ("await", 0) in cloud.asked
    assert not {("end", 0), ("claim", 2)} & set(cloud.asked)


def test_a_name_that_another_launch_has_is_a_refusal_that_touches_nothing(cloud):
    cloud.raises["claim", 1] = NameTakenError("in use")
    assert submitted(cloud, {0: 1, 1: 1}) == ([0], ["in use"])
    assert ("end", 1) not in cloud.asked


def test_a_job_without_a_machine_is_ended_and_the_others_are_not(cloud):
    cloud.raises["await", 0] = CloudError("not up")
    assert submitted(cloud, {0: 1, 1: 1}) == ([1], ["not up"])
    assert [one for one in cloud.asked if one[0] == "end"] == [("end", 0)]


def test_a_machine_that_does_not_end_is_named_and_the_others_are_awaited(cloud):
    cloud.raises["await", 0] = CloudError("too dear")
    cloud.raises["end", 0] = StillBillingError("IS STILL THERE")
    assert submitted(cloud, {0: 1, 1: 1}) == ([1], ["too dear", "IS STILL THERE"])
    assert ("await", 1) in cloud.asked


@pytest.mark.parametrize("call", ["submit", "await"])
def test_an_interrupt_leaves_those_on_their_way_and_tells_which(cloud, call):
    cloud.raises[call, 1] = KeyboardInterrupt()
    going = []
    with pytest.raises(KeyboardInterrupt):
        submit_parts(parts({0: 1, 1: 1, 2: 1}), SILENT, going)
    ended = [part for call, part in cloud.asked if call == "end"]
    assert (ended, [one.run.part for one in going]) == (
        ([1], [0]) if call == "submit" else ([], [0, 1, 2])
    )
