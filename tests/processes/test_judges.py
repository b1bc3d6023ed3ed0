"""A suite's judge gives the verdicts, in one process per venv, and its own faults are named."""

from __future__ import annotations

import json
import os
from typing import ClassVar

import pytest

from skymark.execute.sweeps import run_sweeps
from skymark.model.record import Status
from tests.scripted_suite import EFFORT, ScriptedSuite, cell_of, plan_of

pytestmark = pytest.mark.usefixtures("processes_without_coverage")


class JudgedSuite(ScriptedSuite):
    """The scripted cells, with a judge."""

    judge: ClassVar = "scripted:ScriptedJudge"


def hands_over(what, adapter="a", **more):
    return cell_of(adapter, **{"hands-over": what}, **more)


@pytest.fixture
def records(bed):
    """Run cells, and return their records in order."""

    def run(*cells, rounds=1, **effort):
        effort |= {"min_rounds": rounds, "max_rounds": rounds}
        plan = plan_of(*cells, effort=EFFORT.model_copy(update=effort))
        return run_sweeps(bed.measurer(plan, suite=JudgedSuite()))

    return run


def judged(bed):
    return [json.loads(line) for line in (bed.cache / "judged.jsonl").read_text().splitlines()]


def test_the_judges_verdict_is_the_records_whatever_the_runner_says(records):
    cells = hands_over("guilty", "a", does="measure"), hands_over("nothing wrong", "b", does="lie")
    guilty, acquitted = records(*cells, rounds=2)
    assert (guilty.status, guilty.cause.kind) == (Status.INVALID, "dropped-tail")
    assert acquitted.status is Status.OK
    assert acquitted.verification.verified_elements == 14


def test_one_process_judges_all_rounds_of_a_venv_and_is_told_what_the_engine_saw(bed, records):
    cells = hands_over("nothing wrong", "a"), hands_over("nothing wrong", "b", does="allocate")
    records(*cells, rounds=2)
    lines = judged(bed)
    assert [line["round"] for line in lines] == [0, 0, 1, 1]
    assert len({line["pid"] for line in lines}) == 1
    assert lines[0]["pid"] not in {line["pid"] for line in bed.journal("measure")}
    timed = {(line["cell"], line["round"]): line for line in bed.journal("timed")}
    for line in lines:
        there = timed[line["cell"], line["round"]]
        assert there["inner_s"] <= line["wall_s"] <= there["outer_s"]
    assert all(line["wall_s"] >= 0.3 for line in lines if line["cell"].endswith(".b"))


def test_the_next_process_gets_ready_while_the_last_round_of_the_one_before_is_judged(bed, records):
    first, second = records(hands_over("wait until b has begun"), hands_over("nothing wrong", "b"))
    assert [first.status, second.status] == [Status.OK, Status.OK]
    assert len({line["pid"] for line in bed.journal("measure")}) == 2


def test_the_judge_is_ended_with_the_run(bed, records):
    records(hands_over("nothing wrong"))
    assert (bed.cache / "judge-closed").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(judged(bed)[0]["pid"], 0)


def test_a_round_without_evidence_has_no_figures(records):
    (record,) = records(cell_of("a"))
    assert (record.status, record.cause.kind) == (Status.FAILED, "nothing-handed-over")
    assert record.metrics == {}


@pytest.mark.parametrize(
    ("what", "kind"),
    [("raise", "RuntimeError"), ("kill", "worker-died"), ("cannot start", "RuntimeError")],
)
def test_a_judge_that_fails_fails_the_cell_alone(records, what, kind):
    broken, other = records(hands_over(what, "a"), hands_over("nothing wrong", "b"))
    assert (broken.status, broken.cause.kind) == (Status.FAILED, kind)
    assert "process that judges" in broken.cause.message
    assert other.status is Status.OK


def test_a_worker_that_is_killed_while_it_is_judged_is_named_and_not_its_judge(records):
    killed, other = records(hands_over("what goes with it", "a"), hands_over("nothing wrong", "b"))
    assert (killed.status, killed.cause.kind) == (Status.FAILED, "worker-died")
    assert "signal 9" in killed.cause.message
    assert "judges" not in killed.cause.message
    assert other.status is Status.OK


@pytest.mark.usefixtures("short_time_for_what_hangs")
def test_a_judge_that_takes_too_long_is_ended(records):
    slow, other = records(
        hands_over("hang", "a"), hands_over("nothing wrong", "b"), cell_timeout_s=60.0
    )
    assert slow.status is Status.TIMEOUT
    assert other.status is Status.OK
