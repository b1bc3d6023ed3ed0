"""Records: which ends are bad, what a round must be, and how wide an interval is."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from skymark.model.metric import Figure
from skymark.model.record import (
    SCHEMA_VERSION,
    Cause,
    Cell,
    MachineUse,
    Record,
    Round,
    RoundResult,
    Status,
    Verification,
    is_well,
    undisturbed,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CELL = Cell(suite="training", scenario="T-1", variant="small", adapter="jax")


def round_of(number=0, **metrics):
    return Round(round=number, started_at=NOW, setup_s=0.5, timed_ns=1_500_000_000, metrics=metrics)


def record_of(*rounds):
    return Record(
        cell=CELL,
        cell_hash=CELL.hash,
        status=Status.OK,
        rounds=rounds,
        started_at=NOW,
        ended_at=NOW,
    )


def test_only_what_ran_and_went_wrong_is_bad():
    assert {status for status in Status if status.is_bad} == {
        Status.INVALID,
        Status.FAILED,
        Status.TIMEOUT,
    }


@pytest.mark.parametrize(
    ("statuses", "well"),
    [
        ("", True),  # a part of a plan without a cell
        ("ok", True),
        ("unsupported", True),  # the plan could run none
        ("ok skipped unsupported", True),
        ("skipped", False),
        ("skipped unsupported", False),
        ("ok failed", False),
        ("ok timeout skipped", False),
        ("ok invalid", False),
    ],
)
def test_a_run_is_well_where_nothing_went_wrong_and_something_that_could_run_did(statuses, well):
    records = [record_of().model_copy(update={"status": Status(s)}) for s in statuses.split()]
    assert is_well(records) is well


@pytest.mark.parametrize("status", [Status.FAILED, Status.SKIPPED])  # as earlier versions wrote it
@pytest.mark.parametrize(
    ("kind", "again"), [("venv", True), ("worker-start", True), ("worker-died", False)]
)
def test_what_was_not_set_up_is_told_by_its_cause(status, kind, again):
    cause = Cause(kind=kind, message="no")
    record = record_of().model_copy(update={"status": status, "cause": cause})
    assert record.was_not_set_up is again


def test_the_half_width_is_relative_and_missing_without_an_interval():
    assert Figure(value=100, low=90, high=120).relative_half_width == pytest.approx(0.15)
    assert Figure(value=-100, low=-110, high=-90).relative_half_width == pytest.approx(0.1)
    assert Figure(value=100).relative_half_width is None
    assert Figure(value=0, low=-1, high=1).relative_half_width is None


def test_a_record_keeps_of_a_round_all_but_what_it_was_derived_from():
    result = RoundResult(
        **round_of(3, steps_per_s=4.0).model_dump(),
        samples={"step_ns": (1, 2)},
        verification=Verification(passed=True),
        conditions={"mood": "calm"},
    )
    assert result.summary == round_of(3, steps_per_s=4.0)
    assert type(result.summary) is Round


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "fast", None])
def test_a_metric_of_a_round_is_a_number_or_absent(value):
    with pytest.raises(ValidationError, match="steps_per_s"):
        round_of(steps_per_s=value)


def test_measuring_takes_the_set_up_and_the_timed_part_of_every_round():
    assert record_of(round_of(), round_of(1)).measured_s == pytest.approx(4.0)
    assert record_of().measured_s == 0


def test_values_of_a_metric_are_those_of_the_rounds_that_have_it():
    record = record_of(round_of(0, loss=0.5, steps=0), round_of(1), round_of(2, loss=0.25))
    assert record.values("loss") == [0.5, 0.25]
    assert record.values("steps") == [0]
    assert record.values("accuracy") == []


def test_a_record_is_of_this_schema_only():
    content = record_of().model_dump()
    assert content["schema_version"] == SCHEMA_VERSION
    for version in (SCHEMA_VERSION - 1, SCHEMA_VERSION + 1):
        with pytest.raises(ValidationError, match="schema_version"):
            Record.model_validate(content | {"schema_version": version})


@pytest.mark.parametrize(
    ("use", "is_disturbed"),
    [
        (None, False),
        ({"others_cores": 1.0}, False),
        ({"others_cores": None, "most_share": 0.05}, False),
        ({"others_cores": 0.09, "most_share": 0.05}, False),
        ({"others_cores": 0.11, "most_share": 0.05}, True),
        ({"others_cores": 0.0, "stolen_cores": 0.11, "most_share": 0.05}, True),
    ],
)
def test_a_round_is_disturbed_if_others_took_more_than_they_may(use, is_disturbed):
    machine = None if use is None else MachineUse(cores=2.0, **use)
    round = Round(round=0, started_at=NOW, setup_s=0.0, timed_ns=1, machine=machine)
    assert round.is_disturbed is is_disturbed
    assert undisturbed([round]) == ([] if is_disturbed else [round])
