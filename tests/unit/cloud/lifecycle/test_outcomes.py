"""A run's end as its machines have written it down, where SkyPilot does not tell it."""

from __future__ import annotations

import io

import pytest

from skymark.cloud.lifecycle.following import ClusterJob, end_there, follow
from skymark.cloud.machine_script import RESULTS
from skymark.cloud.sky.jobs import JobEnd
from skymark.model.errors import CloudError, UnreachableError
from tests.rented_runs import run_of
from tests.unit.cloud.lifecycle.test_following import ScriptedJob

CLUSTER = "skymark-cpu-1"
AWAY = CloudError("SkyPilot's API server is away")

pytestmark = pytest.mark.needs("rsync")


@pytest.fixture
def node(machines):
    """Make a node with an outcome of the run, without a text with none; returns its place."""

    def give(number, text=None):
        name = CLUSTER if number == 0 else f"{CLUSTER}-worker{number}"
        results = machines.node(name) / RESULTS
        results.mkdir()
        outcome = results / "one.outcome"
        if text is not None:
            outcome.write_bytes(text)
        return outcome

    return give


def run(**changes):
    return run_of(run_id="one", name=CLUSTER, **changes)


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (b"run 0\n", JobEnd.SUCCEEDED),
        (b"run 1\n", JobEnd.FAILED),
        (b"setup 3\n", JobEnd.FAILED),
        (b"setup 0\n", None),
        (b"", None),
        (b"run 0\nskymark: skymark-cpu-1 is gone\n", JobEnd.FAILED),
        (b"\xff\x00 run 0 0\n", JobEnd.FAILED),
        (b"run 0\n" * 100_000, None),
        (None, None),
    ],
)
def test_a_run_ends_as_its_machine_has_written_down(node, text, end):
    node(0, text)
    assert end_there(run()) is end


def test_a_run_has_ended_when_all_its_machines_say_so(node):
    node(0, b"run 0\n")
    with pytest.raises(UnreachableError):
        end_there(run(nodes=2))
    node(1)
    assert end_there(run(nodes=2)) is None


def test_one_part_that_failed_makes_the_run_a_failed_one(node):
    node(0, b"run 0\n")
    node(1, b"run 1\n")
    assert end_there(run(nodes=2)) is JobEnd.FAILED


def job_of(say=lambda _: None, **script):
    return ClusterJob(ScriptedJob(**script), run(), say)


def test_a_run_that_ends_while_skypilot_is_gone_for_good_has_its_own_end(node, monkeypatch):
    monkeypatch.setattr("skymark.cloud.lifecycle.following.UNREACHABLE_S", 0)
    outcome = node(0)
    said = []

    def running():
        if len(asked) == 3:
            outcome.write_text("run 0\n")
        asked.append(len(said))
        raise AWAY

    asked = []
    job = job_of(said.append, shows=[AWAY], ends=[running])
    end = follow(job, io.StringIO(), said.append, until_s=None, retry_s=0.01)
    assert end is JobEnd.SUCCEEDED
    (line,) = said
    assert f"({AWAY})" in line
    assert "run continues" in line


def test_as_long_as_skypilot_answers_its_word_counts(node):
    node(0, b"run 0\n")
    assert job_of(ends=[None]).ended() is None


@pytest.mark.parametrize("known", [True, False])
def test_where_the_machine_does_not_answer_either_it_is_skypilot_that_is_away(machines, known):
    if known:
        machines.node(CLUSTER).rmdir()
    with pytest.raises(CloudError, match="server is away"):
        job_of(ends=[AWAY]).ended()
