"""Plans: what makes two the same, and what of them is run."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from skymark.model.duration import Span
from skymark.model.effort import Effort
from skymark.model.plan import Plan, PlannedCell, Profile
from skymark.model.record import Cause, Cell, Status

LACKS = (Status.UNSUPPORTED, Cause(kind="lacks-ability", message="it cannot"))
EFFORT = Effort(
    name="quick",
    min_rounds=3,
    max_rounds=3,
    target_relative_interval=0.1,
    cell_timeout_s=60.0,
    limits={"min_seconds": 0.1},
)


def cell(scenario, adapter):
    return Cell(suite="loading", scenario=scenario, variant="small", adapter=adapter)


A, B, C = cell("TAB-1", "numpy"), cell("TAB-1", "grain"), cell("NLP-1", "numpy")


def planned(one, **more):
    refusal = LACKS if one is C else None
    usual = {"group": one.adapter, "shard_key": one.label, "refusal": refusal}
    return PlannedCell(cell=one, **(usual | more))


def plan_of(*cells, **effort):
    chosen = EFFORT.model_copy(update=effort)
    return Plan(suite="loading", profile="p", effort=chosen, cells=tuple(map(planned, cells)))


def test_a_plan_is_its_cells_and_its_effort_whatever_the_order_and_the_time_limit():
    assert plan_of(A, B).hash == plan_of(B, A).hash
    assert plan_of(A, B).hash == plan_of(A, B, cell_timeout_s=5.0).hash
    assert plan_of(A, B).hash != plan_of(A).hash
    assert plan_of(A, B).hash != plan_of(A, B, name="standard").hash
    assert plan_of(A, B).hash != plan_of(A, B, min_rounds=1).hash
    assert plan_of(A, B).hash != plan_of(A, B, limits={"min_seconds": 0.2}).hash


def test_a_plan_is_a_file_that_reads_back_whole():
    plan = plan_of(A, B, C)
    again = Plan.model_validate_json(plan.model_dump_json())
    assert again == plan
    assert again.hash == plan.hash


def test_how_cells_are_run_is_no_part_of_what_is_measured():
    """A run is continued though another skymark groups, shards or guesses in another way."""
    plan = plan_of(A, B)
    guess = Span(low_s=1, expected_s=2, high_s=3)
    other = [planned(one, group="g", shard_key="s", guess=guess) for one in (A, B)]
    assert plan.model_copy(update={"cells": tuple(other)}).hash == plan.hash
    assert plan.model_copy(update={"profile": "another", "platform": "gpu"}).hash == plan.hash


def test_refused_cells_are_planned_but_not_run():
    plan = plan_of(A, B, C)
    assert [one.cell for one in plan.cells] == [A, B, C]
    assert [one.cell for one in plan.runnable] == [A, B]


def test_a_cell_is_planned_only_with_its_process_and_its_machine():
    with pytest.raises(ValidationError, match="group"):
        PlannedCell(cell=A, shard_key="s")
    with pytest.raises(ValidationError, match="shard_key"):
        PlannedCell(cell=A, group="g")


def test_a_profile_names_its_suite():
    named = {"name": "p", "description": "d", "platform": "cpu", "scenarios": ("TAB-1",)}
    assert Profile(suite="loading", **named).suite == "loading"
    with pytest.raises(ValidationError, match="suite"):
        Profile(**named)
