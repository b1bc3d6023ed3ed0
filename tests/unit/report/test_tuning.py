"""What is said of a tune: the chosen row first, why, and what the machine itself can do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from skymark.execute.tune import Rung, Tuned
from skymark.model.record import Ceiling, MachineUse, Status
from skymark.report.tuning import Choice
from tests.scripted_suite import cell_of, plan_of
from tests.unit.execute.tuning import ORDER, record_of


def candidate(adapter, workers):
    cell = cell_of(adapter, workers=workers)
    return cell.model_copy(update={"axes": {"workers": workers}})


def tuned(*rungs):
    made = tuple(
        Rung(plan_of(*(one.cell for one in records)), Path(f"rung-{number}"), records)
        for number, records in enumerate(rungs, 1)
    )
    return Tuned(ORDER, made, frozenset({"workers"}))


FAST = record_of(candidate("a", 4), 0.98, 2.0, rates=(980.0, 980.0))
CHEAP = record_of(candidate("b", 2), 0.96, 1.0, rates=(960.0, 960.0))
DROPPED = record_of(candidate("b", 1), 0.5, 0.5, rates=(500.0,))
FAILED = record_of(candidate("c", 1), 0.5, 0.5, status=Status.FAILED)
DECODE = Ceiling(name="decode", rate=700.0, basis="350 on one core × 2")
DISK = Ceiling(name="disk", rate=100.0, basis="1 MB/s", binds=False)
MEMORY = Ceiling(name="memory", rate=5000.0, basis="5 MB/s")


def test_the_chosen_row_comes_first_and_those_that_were_dropped_and_failed_last():
    report = Choice(tuned((FAILED, DROPPED, FAST, CHEAP), (FAST, CHEAP)))
    rows = list(report.rows())
    assert [(row[0], row[1], row[-2]) for row in rows] == [
        ("b", "2", "2"),
        ("a", "4", "2"),
        ("b", "1", "1"),
        ("c", "1", "1"),
    ]
    assert all(len(row) == len(report.headings()) for row in rows)
    assert report.reaches
    assert re.match(r"b workers=2\b.*\b96 %.*\bleast ", report.sentences[0])


def test_other_programs_are_named_even_where_rounds_are_too_few_to_set_one_aside():
    use = MachineUse(cores=2.0, others_cores=1.0, program="stress-ng")
    rounds = tuple(one.model_copy(update={"machine": use}) for one in FAST.rounds)
    report = Choice(tuned((FAST.model_copy(update={"rounds": rounds}),)))
    assert re.search(r"stress-ng.*\b1\D+2 cores\D+2\D+2 rounds", report.sentences[-1])
    assert "cores in" not in Choice(tuned((FAST,))).sentences[-1]


def test_where_none_suffices_the_shortfall_and_the_lowest_ceiling_are_told():
    report = Choice(tuned((DROPPED,)), ceilings=(MEMORY, DISK, DECODE))
    assert not report.reaches
    said = report.reason()
    assert re.match(r"No .*\b95 %.*\bb workers=1\b.*\b50 %", said[0])
    assert re.search(r"1,000 steps/s\b.*\b500 \(50 %", said[1])
    assert [line.split(":")[0].strip() for line in said[2:5]] == ["disk", "decode", "memory"]
    assert "for comparison" in said[2]
    assert re.match(r"limit: decode\b.*\b70 %.*\b71 %", said[-1])


def test_a_machine_whose_own_figures_are_high_enough_is_not_blamed():
    report = Choice(tuned((DROPPED,)), ceilings=(MEMORY, DISK))
    assert report.limit is None
    assert report.reason()[-1].startswith("limit: none ")


def test_where_nothing_could_be_measured_the_table_says_why():
    report = Choice(tuned((FAILED,)))
    (said,) = report.reason()
    assert "No candidate" in said
    assert json.loads(report.to_json())["chosen"] is None


@pytest.mark.parametrize("records", [(FAST, CHEAP), (DROPPED,)])
def test_json_has_what_the_table_has(records):
    report = Choice(tuned(records), ceilings=(DECODE,))
    found = json.loads(report.to_json())
    assert found["reached"] == report.reaches
    assert found["chosen"] == found["candidates"][0]
    assert len(found["candidates"]) == len(records)
    assert found["needed_rate"] == pytest.approx(1000.0)
    assert found["limit"] == (None if report.reaches else "decode")
