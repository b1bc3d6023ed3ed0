"""Plans: what makes two the same, and what of them is run."""

from __future__ import annotations

from skymark.model.cell import Cell
from skymark.model.effort import EFFORTS
from skymark.model.plan import Plan, PlannedCell
from skymark.model.record import Cause, Status

LACKS = (Status.UNSUPPORTED, Cause(kind="lacks-ability", message="it cannot"))


def cell(scenario, adapter):
    return Cell(suite="loading", scenario=scenario, variant="small", adapter=adapter)


A, B, C = cell("TAB-1", "numpy"), cell("TAB-1", "grain"), cell("NLP-1", "numpy")


def plan_of(*cells, effort="quick", **fields):
    planned = tuple(PlannedCell(cell=one, refusal=LACKS if one is C else None) for one in cells)
    return Plan(profile="p", effort=EFFORTS[effort].model_copy(update=fields), cells=planned)


def test_a_plan_is_its_cells_and_its_effort_whatever_the_order_and_the_time_limit():
    assert plan_of(A, B).hash == plan_of(B, A).hash
    assert plan_of(A, B).hash == plan_of(A, B, cell_timeout_s=5.0).hash
    assert plan_of(A, B).hash != plan_of(A).hash
    assert plan_of(A, B).hash != plan_of(A, B, effort="standard").hash
    assert plan_of(A, B).hash != plan_of(A, B, min_rounds=1).hash
    assert plan_of(A, B).hash == Plan.model_validate_json(plan_of(A, B).model_dump_json()).hash


def test_refused_cells_are_planned_but_not_run():
    plan = plan_of(A, B, C)
    assert plan.runnable == (A, B)
    assert plan.groups() == {"numpy": (A,), "grain": (B,)}
