"""Measured times take the place of a plan's guesses, and change nothing else of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skymark.execute.duration import with_measured_times
from skymark.execute.partition.shard import Shard
from skymark.execute.partition.split import Split
from skymark.model.errors import UsageError
from skymark.rundir.history import past_run
from skymark.rundir.reader import open_run

SAVED = Path(__file__).parents[2] / "data" / "run"


@pytest.fixture
def plan():
    return open_run(SAVED).manifest.plan


def test_cells_take_as_long_as_they_took(plan):
    measured = with_measured_times(plan, [SAVED])
    run = open_run(SAVED)
    past = past_run(run.manifest, run.records)
    for planned in measured.cells:
        if planned.cell.hash in past.cells:
            assert planned.guess.expected_s == past.cells[planned.cell.hash].round_s


def test_a_plan_keeps_its_hash_so_that_its_run_goes_on(plan):
    assert with_measured_times(plan, [SAVED]).hash == plan.hash


def test_workers_with_the_same_file_split_alike(plan):
    measured = with_measured_times(plan, [SAVED])
    again = type(plan).model_validate_json(measured.model_dump_json())
    for number in range(2):
        shard = Shard(split=Split.alike("longest", 2), number=number)
        taken = [[one.cell.id for one in shard.take(each.cells)] for each in (measured, again)]
        assert taken[0] == taken[1]


def test_a_run_of_other_cells_tells_nothing(plan):
    other = plan.model_copy(
        update={
            "cells": tuple(
                one.model_copy(update={"cell": one.cell.model_copy(update={"variant": "huge"})})
                for one in plan.cells
            )
        }
    )
    with pytest.raises(UsageError, match=re.escape(f"--measured {SAVED}")):
        with_measured_times(other, [SAVED])
