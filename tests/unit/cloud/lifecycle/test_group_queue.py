"""A job per group: a refusal names what is in the queue, and the same again submits the rest.

SkyPilot's queue is stood in for by a list, because it refuses nothing on demand.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from skymark.cloud.lifecycle import queued_jobs
from skymark.cloud.lifecycle.queued_jobs import outstanding_jobs, submit_groups
from skymark.cloud.lifecycle.stages import Quoted
from skymark.cloud.sky.jobs import MachineJob
from skymark.cloud.submissions import submission_key
from skymark.execute.slots import SlotJob
from skymark.model.errors import CloudError, UsageError
from tests.rented_runs import run_of
from tests.scripted_suite import cell_of, plan_of

GROUPS = [f"model-{number}" for number in range(8)]
JOBS = [SlotJob(cards=0.5, slots=1, fraction=0.5, groups=(name,)) for name in GROUPS]


class Machine:
    """A cluster with a queue."""

    def __init__(self):
        self.queue = []
        self.sent = []
        self.refuses = None
        self.raises = CloudError("the machine did not take it")

    def queue_slots(self, quoted, jobs, granted):
        for name, job in jobs.items():
            if job.groups == (self.refuses,):
                raise self.raises
            number = len(self.queue) + 1
            self.queue.append(SimpleNamespace(id=number, name=name, status="PENDING"))
            self.sent.append((quoted.run.run_id, job.groups[0]))
            granted(name, MachineJob("cluster", number))


@pytest.fixture
def machine(monkeypatch):
    made = Machine()
    monkeypatch.setattr(queued_jobs, "queue_slots", made.queue_slots)
    monkeypatch.setattr(queued_jobs, "queued_jobs", lambda _: made.queue)
    monkeypatch.setattr(queued_jobs, "turn_of", lambda *_: nullcontext())
    return made


def submit(run_id, told=None):
    plan = plan_of(*(cell_of(name) for name in GROUPS))
    run = run_of(plan_hash=plan.hash, run_id=run_id, name="cluster")
    told = [] if told is None else told
    return submit_groups(Quoted(run, plan, {}), JOBS, told.append)


def test_each_job_is_told_with_its_group(machine):
    told = []
    done = submit("run-1", told)
    assert done.run.run_id == "run-1"
    assert [job.number for job in done.jobs] == list(range(1, 9))
    assert re.fullmatch(r"1\D+8: model-0 .* 1", told[0])
    assert re.fullmatch(r"8\D+8: model-7 .* 8", told[-1])


def test_a_refusal_names_both_and_the_same_again_submits_the_rest_to_the_same_run(machine):
    machine.refuses = "model-2"
    with pytest.raises(CloudError) as refused:
        submit("run-1")
    left = "model-2, model-3, model-4, model-5, model-6 and 1 more"
    assert re.search(f" 1 2; .*: {left};", str(refused.value))
    machine.refuses = None
    told = []
    done = submit("run-2", told)
    assert re.fullmatch(r"2\D+8 groups .*cluster", told[0])
    assert done.run.run_id == "run-1"
    assert [job.number for job in done.jobs] == list(range(3, 9))
    assert machine.sent == [("run-1", name) for name in GROUPS]
    assert submit("run-3").jobs == ()
    assert len(machine.queue) == len(GROUPS)


def test_an_interrupt_says_what_is_in_the_queue(machine):
    machine.refuses, machine.raises = "model-1", KeyboardInterrupt()
    told = []
    with pytest.raises(KeyboardInterrupt):
        submit("run-1", told)
    assert re.search(" 1; .*: model-1, model-2", told[-1])


def test_bad_usage_stays_bad_usage_where_nothing_was_submitted(machine):
    machine.refuses, machine.raises = "model-0", UsageError("no such machine")
    with pytest.raises(UsageError, match=r"^no such machine$"):
        submit("run-1")


def test_groups_whose_jobs_failed_are_submitted_again_in_a_run_of_their_own(machine):
    submit("run-1")
    for job in machine.queue:
        job.status = "FAILED" if job.id == 4 else "SUCCEEDED"
    done = submit("run-2")
    assert done.run.run_id == "run-2"
    assert machine.sent[-1] == ("run-2", "model-3")
    assert len(done.jobs) == 1


def test_what_would_be_submitted_now_is_told_without_submitting(machine):
    machine.refuses = "model-2"
    with pytest.raises(CloudError):
        submit("run-1")
    plan = plan_of(*(cell_of(name) for name in GROUPS))
    run = run_of(plan_hash=plan.hash, run_id="run-9", name="cluster")
    told = []
    rest = outstanding_jobs(run, submission_key(run, plan), JOBS, told.append)
    assert rest == (tuple(GROUPS[2:]), "run-1")
    (line,) = told
    assert re.fullmatch(r"2\D+8 groups .*cluster", line)
    assert len(machine.queue) == 2
