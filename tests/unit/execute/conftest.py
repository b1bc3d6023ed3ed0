"""A small suite whose worker's side is scripted, and an engine around it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from skymark.execute.engine import Engine
from skymark.execute.venvs import Venvs
from skymark.model.cell import Cell, Setting
from skymark.model.effort import Effort
from skymark.model.plan import Plan, PlannedCell, Selection
from skymark.model.record import Cause, Record, Status
from skymark.model.venv import VenvSpec
from skymark.run.directory import RunDirectory

WORKER_SIDE = Path(__file__).with_name("worker_side")
WRONG_PACKAGE = "nowhere @ file:///nowhere/nowhere-1.0-py3-none-any.whl"

EFFORT = Effort(
    name="test",
    min_rounds=2,
    max_rounds=2,
    target_relative_interval=0.1,
    min_seconds=0.1,
    max_seconds=1.0,
    cell_timeout_s=30.0,
    verified_elements=8,
)


class ScriptedSuite:
    """Cells that say themselves what their worker does. Implements `Suite`."""

    name = "scripted"
    runner = "scripted:ScriptedRunner"

    def plan(self, selection: Selection) -> list[PlannedCell]:
        raise NotImplementedError

    def environment(self, adapter: str) -> VenvSpec:
        wrong = adapter == "cannot-be-installed"
        return VenvSpec(name=adapter, packages=(WRONG_PACKAGE,) if wrong else ())

    def fetch(self, cells: Iterable[Cell], cache: Path, announce: Callable[[str], None]) -> None:
        for cell in cells:
            if "fetch" in cell.settings:
                announce(f"fetching {cell.settings['fetch']}")

    def group(self, cell: Cell) -> str:
        return cell.reference

    def unprepared(self, cells: Iterable[Cell], cache: Path) -> list[Cell]:
        return [cell for cell in cells if "prepare" in cell.settings]


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

    def measured(self, cell: Cell, round: int) -> None:
        self.tell(f"measured {cell.id} {round}")

    def ended(self, record: Record, *, rounds_left: int = 0) -> None:
        self.tell(f"ended {record.cell.id} {record.status.value} {rounds_left}")


def cell_of(adapter: str, scenario: str = "S-1", **settings: Setting) -> Cell:
    """A cell that says what its worker does."""
    return Cell(
        suite="scripted", scenario=scenario, variant="small", adapter=adapter, settings=settings
    )


def plan_of(*cells: Cell, effort: Effort = EFFORT, refused: Iterable[Cell] = ()) -> Plan:
    """A plan of cells to run, and of cells that are refused."""
    reason = (Status.UNSUPPORTED, Cause(kind="lacks-ability", message="it cannot"))
    planned = [PlannedCell(cell=cell) for cell in cells]
    planned += [PlannedCell(cell=cell, refusal=reason) for cell in refused]
    return Plan(profile="test", effort=effort, cells=tuple(planned))


class Bed:
    """Where an engine runs: a run directory, a cache with the workers' journal, a witness."""

    def __init__(self, root: Path) -> None:
        self.run = RunDirectory(root / "run")
        self.cache = root / "cache"
        self.cache.mkdir()
        self.witness = Witness()

    def engine(self, plan: Plan, *, own: bool = False) -> Engine:
        """An engine for a plan, with the tests' own Python or environments of the cache."""
        return Engine(
            plan=plan,
            suite=ScriptedSuite(),
            run=self.run,
            cache=self.cache,
            observer=self.witness,
            environments=Venvs(self.cache, self.witness.stage) if own else None,
            current_python=Path(sys.executable),
        )

    def journal(self, do: str) -> list[dict]:
        """What workers were asked to do, in order."""
        path = self.cache / "journal.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in map(json.loads, lines) if line["do"] == do]


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


@pytest.fixture(autouse=True)
def worker_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers import the scripted runner, besides what the session lets them import."""
    paths = filter(None, [os.fspath(WORKER_SIDE), os.environ.get("SKYMARK_WORKER_PATH")])
    monkeypatch.setenv("SKYMARK_WORKER_PATH", os.pathsep.join(paths))
