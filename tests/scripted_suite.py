"""A small suite whose worker's side is scripted: plans of its cells, and a witness of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from skymark.model.effort import Allotment, Effort
from skymark.model.metric import Declaration, Metric
from skymark.model.plan import Plan, PlannedCell, Selection
from skymark.model.record import Cause, Cell, Record, Round, Setting, Status
from skymark.model.venv import VenvSpec
from skymark.suite.contract import Row, Suite

WRONG_PACKAGE = "nowhere @ file:///nowhere/nowhere-1.0-py3-none-any.whl"

EFFORT = Effort(
    name="test",
    min_rounds=2,
    max_rounds=2,
    target_relative_interval=0.1,
    cell_timeout_s=30.0,
    limits={"steps": 4},
)


class ScriptedSuite(Suite):
    """Cells that say themselves what their worker does."""

    name: ClassVar = "scripted"
    title: ClassVar = "cells that do as they are told"
    runner: ClassVar = "scripted:ScriptedRunner"
    declaration: ClassVar = Declaration(
        suite="scripted",
        metrics=(
            Metric(name="steps_per_s", heading="steps/s", unit="1/s", better="higher"),
            Metric(name="step_ns", heading="step ns", unit="ns", better="lower"),
        ),
        primary="steps_per_s",
        sample_columns={"step_ns": "int64"},
        conditions=("mood",),
    )
    efforts: ClassVar[Mapping[str, Effort]] = {"test": EFFORT}

    def scenarios(self) -> list[Row]:
        return [{"id": "S-1"}, {"id": "S-2"}]

    def adapters(self) -> list[Row]:
        return [{"slug": slug} for slug in "abc"]

    def plan(self, selection: Selection, effort: Effort) -> list[PlannedCell]:
        return [
            planned_cell(cell_of(adapter, scenario))
            for scenario in selection.scenarios
            for adapter in selection.adapters
        ]

    def venv(self, cell: Cell) -> VenvSpec | None:
        if cell.adapter == "without-a-venv":
            return None
        wrong = cell.adapter == "cannot-be-installed"
        return VenvSpec(name=cell.adapter, packages=(WRONG_PACKAGE,) if wrong else ())

    def absence(self, cell: Cell) -> Cause | None:
        if "lacks" not in cell.settings:
            return None
        message = f"there is no {cell.settings['lacks']} on this machine"
        return Cause(kind="library-absent", message=message, action="build it from source")

    def fetch(self, cells: Iterable[Cell], cache: Path, announce: Callable[[str], None]) -> None:
        for cell in cells:
            if "fetch" in cell.settings:
                announce(f"fetching {cell.settings['fetch']}")

    def unprepared(self, cells: Iterable[Cell], cache: Path) -> list[Cell]:
        return [cell for cell in cells if "prepare" in cell.settings]


class CountingSuite(ScriptedSuite):
    """The same cells, of which a figure that does not vary is wanted."""

    declaration: ClassVar = ScriptedSuite.declaration.model_copy(
        update={
            "metrics": (
                Metric(name="steps_per_s", heading="steps/s", scale="exact", better="higher"),
            ),
        }
    )


class Witness:
    """Writes down what an observer is told; `on` may interrupt at a chosen call."""

    def __init__(self, on: Callable[[str], None] = lambda _: None) -> None:
        self.told: list[str] = []
        self.on = on

    def tell(self, text: str) -> None:
        self.told.append(text)
        self.on(text)

    def stage(self, text: str) -> None:
        self.tell(f"stage {text}")

    def planned(self, steps: int) -> None:
        self.tell(f"planned {steps}")

    def measuring(self, cell: Cell, round: int) -> None:
        self.tell(f"measuring {cell.id} {round}")

    def measured(self, cell: Cell, round: int, result: Round | None) -> None:
        self.tell(f"measured {cell.id} {round}")

    def ended(self, record: Record, *, rounds_left: int = 0) -> None:
        self.tell(f"ended {record.cell.id} {record.status.value} {rounds_left}")


def cell_of(adapter: str, scenario: str = "S-1", **settings: Setting) -> Cell:
    """A cell that says what its worker does."""
    return Cell(
        suite="scripted", scenario=scenario, variant="small", adapter=adapter, settings=settings
    )


def planned_cell(cell: Cell, **more: Any) -> PlannedCell:
    """A planned cell with its adapter's process and its scenario's machine, or as given."""
    usual = {"group": cell.adapter, "shard_key": cell.label}
    return PlannedCell(cell=cell, **(usual | more))


def plan_of(
    *cells: Cell | PlannedCell,
    effort: Effort = EFFORT,
    refused: Iterable[Cell] = (),
    allotment: Allotment | None = None,
) -> Plan:
    """A plan of cells to run, and of cells that are refused."""
    reason = (Status.UNSUPPORTED, Cause(kind="lacks-ability", message="it cannot"))
    planned = [one if isinstance(one, PlannedCell) else planned_cell(one) for one in cells]
    planned += [planned_cell(cell, refusal=reason) for cell in refused]
    return Plan(
        suite="scripted",
        profile="test",
        effort=effort,
        allotment=allotment,
        cells=tuple(planned),
    )
