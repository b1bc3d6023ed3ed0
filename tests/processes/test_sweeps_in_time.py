"""Sweeps with a time for the rounds: which cells get them, and what the records say."""

from __future__ import annotations

from itertools import count

import pytest

from skymark.execute.sweeps import run_sweeps
from skymark.model.effort import MOST_ROUNDS, Allotment
from skymark.model.record import Status, Stop
from tests.scripted_suite import Witness, cell_of, plan_of

pytestmark = pytest.mark.usefixtures("processes_without_coverage")

LONG = Allotment(time_s=1e6)


def stops(records):
    return {record.cell.adapter: record.stopped_by for record in records}


def rounds(records):
    return {record.cell.adapter: len(record.rounds) for record in records}


def test_rounds_go_to_those_whose_rank_is_open_and_a_library_far_behind_gets_the_least(bed):
    cells = [
        cell_of("one", ms="100,120,110,100,105,104,106"),
        cell_of("two", ms="150,170,160,155,158,156,157"),
        cell_of("far", ms="2000,2400,1900"),
    ]
    records = run_sweeps(bed.measurer(plan_of(*cells, allotment=LONG)))
    assert {record.status for record in records} == {Status.OK}
    assert stops(records) == {"one": Stop.INTERVAL, "two": Stop.INTERVAL, "far": Stop.DECIDED}
    found = rounds(records)
    assert found["far"] == 3
    assert 3 < found["one"] < MOST_ROUNDS


def test_rounds_still_go_round_the_adapters(bed):
    cells = [cell_of(adapter, ms="100,140,80,150,100") for adapter in "ab"]
    clock = count()  # each look takes a second
    allotment = Allotment(time_s=50)
    run_sweeps(bed.measurer(plan_of(*cells, allotment=allotment)), clock=clock.__next__)
    order = [line["adapter"] for line in bed.journal("measure")]
    assert order[:8] == list("abba" * 2)


def test_when_the_time_is_over_each_cell_keeps_the_rounds_it_has(bed):
    cells = [cell_of(adapter, ms="100,140,80,150,100") for adapter in "ab"]
    clock = count()
    allotment = Allotment(time_s=35)
    records = run_sweeps(bed.measurer(plan_of(*cells, allotment=allotment)), clock=clock.__next__)
    assert set(stops(records).values()) == {Stop.TIME}
    assert 3 <= max(rounds(records).values()) < 10
    assert next(clock) < 45


def test_every_cell_gets_its_first_round_however_short_the_time_is(bed):
    cells = [cell_of(adapter) for adapter in "abc"]
    allotment = Allotment(time_s=0.001)
    records = run_sweeps(bed.measurer(plan_of(*cells, allotment=allotment)))
    assert rounds(records) == {"a": 1, "b": 1, "c": 1}
    assert set(stops(records).values()) == {Stop.TIME}
    assert [one.kind for one in records[0].warnings] == ["no-interval"]


def test_rounds_of_an_interrupted_run_count_and_so_does_the_time_they_took(bed):
    cells = [cell_of(adapter, ms="60000,90000,50000") for adapter in "ab"]

    def interrupt(told):
        if told == "measuring scripted.S-1.small.b 1":
            raise KeyboardInterrupt

    bed.witness = Witness(interrupt)
    # Rounds say that they took a minute; on the clock they take none.
    plan = plan_of(*cells, allotment=Allotment(time_s=400))
    with pytest.raises(KeyboardInterrupt):
        run_sweeps(bed.measurer(plan), clock=lambda: 0.0)
    before = len(bed.journal("measure"))
    bed.witness = Witness()
    records = run_sweeps(
        bed.measurer(plan_of(*cells, allotment=Allotment(time_s=1))), clock=lambda: 0.0
    )
    assert len(bed.journal("measure")) == before
    assert set(stops(records).values()) == {Stop.TIME}
    assert sum(rounds(records).values()) == before


def test_a_cell_that_fails_or_lies_is_ended_at_once_and_the_others_go_on(bed):
    cells = [cell_of("a"), cell_of("bad", round1="raise"), cell_of("liar", round1="lie")]
    records = run_sweeps(bed.measurer(plan_of(*cells, allotment=LONG)))
    assert [record.status.value for record in records] == ["ok", "failed", "invalid"]
    assert stops(records) == {"a": Stop.INTERVAL, "bad": Stop.FAILED, "liar": Stop.FAILED}


def test_without_a_time_the_record_says_whether_the_interval_or_the_rounds_ended_it(bed):
    effort = plan_of(cell_of("a")).effort.model_copy(update={"max_rounds": 4})
    cells = [cell_of("steady"), cell_of("noisy", ms="100,200,90,300")]
    records = run_sweeps(bed.measurer(plan_of(*cells, effort=effort, refused=[cell_of("no")])))
    assert stops(records) == {"steady": Stop.INTERVAL, "noisy": Stop.ROUNDS, "no": None}


def test_disturbed_rounds_are_measured_again_as_long_as_there_is_time(bed, taken):
    taken.shares = [0.4] * 4 + [0.0] * 100
    plan = plan_of(*(cell_of(name) for name in "ab"), allotment=LONG)
    records = run_sweeps(bed.measurer(plan, sets_aside=True))
    assert not any(record.disturbed for record in records)
    assert all(len(record.counted) >= 3 for record in records)
    assert sum(len(record.rounds) - len(record.counted) for record in records) == 4


def test_a_machine_that_is_always_disturbed_takes_the_time_and_no_more(bed, taken):
    taken.shares = [0.4] * 1000
    clock = count()
    allotment = Allotment(time_s=35)
    records = run_sweeps(
        bed.measurer(
            plan_of(*(cell_of(name) for name in "ab"), allotment=allotment), sets_aside=True
        ),
        clock=clock.__next__,
    )
    assert all(record.disturbed for record in records)
    assert set(stops(records).values()) == {Stop.TIME}
    assert next(clock) < 45
