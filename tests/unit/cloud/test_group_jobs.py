"""A submission of a job per group is taken up where it broke off, by the names in the queue."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from skymark.cloud.submissions import (
    group_job_name,
    job_name,
    outstanding_groups,
    submission_key,
)
from skymark.model.requests import Job, Limits
from tests.rented_runs import run_of
from tests.scripted_suite import cell_of, plan_of, planned_cell

GROUPS = ("clip ViT-B-32:openai fp32", "clip ViT-B/32:openai fp32", "clip RN50:openai fp32")
KEY = "0123456789ab"
RUN = "20260101-000000-clip-8xh100-abcdef"


def job(id, group, status="SUCCEEDED", run=RUN, key=KEY):
    return SimpleNamespace(id=id, name=group_job_name(run, key, group), status=status)


def test_what_is_not_in_the_queue_goes_to_the_run_that_broke_off():
    queue = [job(1, GROUPS[0]), job(2, GROUPS[2], "RUNNING")]
    assert outstanding_groups(GROUPS, KEY, queue) == ((GROUPS[1],), RUN)


@pytest.mark.parametrize("status", ["INIT", "PENDING", "SETTING_UP", "RUNNING", "SUCCEEDED"])
def test_what_waits_or_runs_or_is_done_is_not_submitted_again(status):
    queue = [job(number, group, status) for number, group in enumerate(GROUPS)]
    assert outstanding_groups(GROUPS, KEY, queue).groups == ()


def test_a_cancelled_job_counts_as_none_unless_its_group_has_a_newer_one():
    queue = [job(number, group) for number, group in enumerate(GROUPS)]
    cancelled = job(9, GROUPS[1], "CANCELLED")
    assert outstanding_groups(GROUPS, KEY, [cancelled, *queue]) == ((GROUPS[1],), RUN)
    again = job(10, GROUPS[1], "PENDING")
    assert outstanding_groups(GROUPS, KEY, [again, cancelled, *queue]).groups == ()


@pytest.mark.parametrize("status", ["FAILED", "FAILED_SETUP", "FAILED_DRIVER"])
def test_failed_jobs_come_last_and_in_a_run_that_has_none_of_their_bad_ends(status):
    failed, done = job(1, GROUPS[0], status), job(2, GROUPS[1])
    assert outstanding_groups(GROUPS, KEY, [failed, done]) == ((GROUPS[2],), RUN)
    assert outstanding_groups(GROUPS, KEY, [failed, done, job(3, GROUPS[2])]) == (
        (GROUPS[0],),
        None,
    )


def test_other_jobs_and_other_submissions_are_not_looked_at():
    others = [
        SimpleNamespace(id=1, name="train", status="RUNNING"),
        SimpleNamespace(id=2, name=f"{RUN}-slots-1", status="RUNNING"),
        job(3, GROUPS[0], key="ba9876543210"),
    ]
    assert outstanding_groups(GROUPS, KEY, others) == (GROUPS, None)


def test_a_job_s_name_is_one_that_skypilot_takes_whatever_the_group_is_called():
    for group in (*GROUPS, "___", "x" * 500, "größer/…"):
        name = group_job_name(RUN, KEY, group)
        assert name == job_name(name)
        assert len(name) < 200
    assert len({group_job_name(RUN, KEY, group) for group in GROUPS}) == len(GROUPS)


def test_submissions_are_the_same_if_plan_stores_variables_and_time_limit_are():
    run = run_of(stores=("s3://one",), variables={"A": "1"}, deadline_s=60)
    plan = plan_of(cell_of("a"))
    key = submission_key(run, plan)
    assert re.fullmatch("[0-9a-f]{12}", key)
    assert submission_key(run.changed(run_id="b"), plan) == key
    changes = ({"stores": ("s3://two",)}, {"job": Job()}, {"limits": Limits()})
    others = {submission_key(run.changed(**change), plan) for change in changes}
    assert len(others | {key, submission_key(run, plan_of(cell_of("b")))}) == 5


def test_a_submission_that_divides_the_plan_otherwise_is_another():
    """Its jobs have other parts: to go on with them would leave cells out."""
    parts = [planned_cell(cell_of("a"), shard_key=str(key)) for key in range(3)]
    run = run_of(parts=2)
    plans = (plan_of(*parts), plan_of(*reversed(parts)))
    even = [submission_key(run.changed(job=Job(split="even")), plan) for plan in plans]
    assert len({submission_key(run, plans[0]), *even}) == 3
    balanced = run.changed(job=Job(split="balanced:2"))
    assert submission_key(balanced, plans[0]) == submission_key(run, plans[0])
