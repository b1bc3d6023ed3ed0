"""The jobs of a submission end together, when its ceiling is used up by the machine's own clock.

SkyPilot and SSH are stood in for: neither is here.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from skymark.cloud.lifecycle import queued_jobs
from skymark.cloud.lifecycle.stages import Quoted
from skymark.cloud.machine_script import UNTIL_VARIABLE
from skymark.execute.slots import SlotJob
from skymark.model.errors import CloudError
from tests.rented_runs import run_of
from tests.scripted_suite import cell_of, plan_of


@pytest.fixture
def variables_of(monkeypatch):
    """Queue two jobs on a machine that has been up for 1,000 s; returns their variables."""

    def variables_of(limit_s, said="1000.42 3999.0", **order):
        told = {"first": {}, "second": {}}
        monkeypatch.setattr(
            queued_jobs, "handle_of", lambda _: SimpleNamespace(launched_resources=1)
        )
        monkeypatch.setattr(
            queued_jobs,
            "make_slot_task",
            lambda run, job, name, launched: SimpleNamespace(update_envs=told[name].update),
        )
        for name in ("send_source", "send_directory", "put_in_order"):
            monkeypatch.setattr(queued_jobs, name, lambda *_: None)
        monkeypatch.setattr(queued_jobs, "output_of", lambda cluster, words: said)
        quoted = Quoted(run_of(submission="one", **order), plan_of(cell_of("a")), {}, limit_s)
        job = SlotJob(cards=1, slots=1, fraction=1)
        queued_jobs.queue_slots(quoted, {"first": job, "second": job}, lambda *_: None)
        return told

    return variables_of


def test_all_jobs_of_a_submission_have_the_moment_when_its_money_is_used_up(variables_of):
    until = {UNTIL_VARIABLE: "4600"}
    assert variables_of(3600, max_cost_usd=5.0) == {"first": until, "second": until}


def test_without_a_ceiling_each_job_has_its_own_deadline_alone(variables_of):
    assert variables_of(3600, deadline_s=3600)["first"] == {UNTIL_VARIABLE: "0"}


def test_a_machine_that_does_not_tell_its_clock_gets_no_job(variables_of):
    with pytest.raises(CloudError, match=r"its clock.*nothing was queued"):
        variables_of(3600, said="", max_cost_usd=5.0)
