"""A job of two machines ends where one of them is lost and the other has ended its part."""

from __future__ import annotations

import io
import re
import threading

import pytest

from skymark.cloud.lifecycle.following import ClusterJob, follow
from skymark.cloud.machine_script import RESULTS
from skymark.cloud.sky.jobs import JobEnd
from skymark.cloud.waiting import clock_s
from skymark.model.errors import CloudError
from tests.rented_runs import run_of

CLUSTER = "skymark-cpu-1"

pytestmark = pytest.mark.needs("rsync")


class Waiting:
    """SkyPilot's job of a cluster that lost a node, as it was seen: it never ends."""

    name = CLUSTER

    def __init__(self, answers=True):
        self._answers = answers

    def show(self, log):
        threading.Event().wait()

    def ended(self):
        if not self._answers:
            raise CloudError("the cluster is not up")

    def is_lost(self):
        return False

    def failure(self):
        return None

    def stop(self):
        return None


@pytest.fixture
def outcome(machines):
    path = machines.node(CLUSTER) / RESULTS / "one.outcome"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def job_of(say, running, waiting=None):
    run = run_of(run_id="one", name=CLUSTER, nodes=2)
    return ClusterJob(waiting or Waiting(), run, say, running, look_s=0.05)


def test_a_job_that_skypilot_never_ends_ends_with_the_part_of_the_machine_that_is_left(outcome):
    said = []
    asked = []

    def running(cluster):
        asked.append(cluster)
        if len(asked) == 3:
            outcome.write_text("run 0\n")
        return 1

    job = job_of(said.append, running)
    assert follow(job, io.StringIO(), said.append, None, retry_s=0.05) is JobEnd.FAILED
    assert len(asked) >= 3
    assert re.search(r"\b1\D+2 machines", job.failure())
    assert 90 < job.absent_s(clock_s() + 100) < 190
    assert [line for line in said if "1 of 2 are left" in line] == said


def test_a_job_that_skypilot_does_not_tell_of_ends_too(outcome):
    outcome.write_text("run 0\n")
    job = job_of(lambda _: None, lambda _: 1, Waiting(answers=False))
    assert job.ended() is JobEnd.FAILED


def test_a_job_without_its_head_goes_on_as_long_as_a_part_does(outcome):
    job = job_of(lambda _: None, lambda _: 1, Waiting(answers=False))
    assert job.ended() is None
    outcome.write_text("run 0\n")
    assert job.ended() is JobEnd.FAILED


@pytest.mark.parametrize("running", [None, 0, 2])
def test_a_job_goes_on_where_no_single_machine_is_known_to_be_lost(outcome, running):
    outcome.write_text("run 0\n")
    assert job_of(lambda _: None, lambda _: running).ended() is None
    with pytest.raises(CloudError, match="not up"):
        job_of(lambda _: None, lambda _: running, Waiting(answers=False)).ended()
