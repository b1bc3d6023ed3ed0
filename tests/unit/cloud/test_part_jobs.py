"""A submission of managed jobs is taken up where it broke off, by the names that SkyPilot has."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from skymark.cloud.submissions import outstanding_parts, part_job_name
from skymark.model.requests import Machine

KEY = "0123456789ab"
RUN = "20260101-000000-clip-gpu-abcdef"


def job(id, part, status="SUCCEEDED", *, parts=3, run=RUN, key=KEY, attempt=1):
    name = part_job_name(run, key, part, parts, attempt)
    return SimpleNamespace(id=id, name=name, status=status)


def test_of_a_new_submission_every_part_is_outstanding():
    assert outstanding_parts(3, KEY, []) == ({0: 1, 1: 1, 2: 1}, None)


@pytest.mark.parametrize(
    "status", ["PENDING", "SUBMITTED", "STARTING", "RUNNING", "RECOVERING", "SUCCEEDED"]
)
def test_a_part_that_waits_runs_or_is_done_is_not_submitted_again(status):
    assert outstanding_parts(3, KEY, [job(1, 0, status), job(2, 2, status)]) == ({1: 1}, RUN)


@pytest.mark.parametrize(
    "status", ["CANCELLING", "CANCELLED", "FAILED", "FAILED_SETUP", "FAILED_NO_RESOURCE"]
)
def test_a_part_that_broke_off_goes_on_in_the_same_run_under_a_name_that_none_has(status):
    known = [job(1, 0), job(2, 1, status), job(3, 2)]
    assert outstanding_parts(3, KEY, known) == ({1: 2}, RUN)
    again = job(4, 1, status, attempt=2)
    assert outstanding_parts(3, KEY, [again, *known]) == ({1: 3}, RUN)
    going = job(5, 1, "RUNNING", attempt=3)
    assert outstanding_parts(3, KEY, [going, again, *known]).attempts == {}


def test_other_jobs_and_other_submissions_are_not_looked_at():
    others = [
        SimpleNamespace(id=1, name="skymark-cpu", status="RUNNING"),
        job(2, 0, "RUNNING", key="ba9876543210"),
        job(3, 0, "RUNNING", parts=4),
    ]
    assert outstanding_parts(3, KEY, others) == ({0: 1, 1: 1, 2: 1}, None)


def test_a_name_tells_people_which_job_of_how_many_it_is():
    assert part_job_name(RUN, KEY, 1, 4, 1) == f"skymark-{RUN}-{KEY}-2of4"
    assert part_job_name(RUN, KEY, 1, 4, 2) == f"skymark-{RUN}-{KEY}-2of4-2"
    Machine(name=part_job_name(RUN, KEY, 1, 4, 2))
