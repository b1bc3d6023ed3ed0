"""Plans and records of runs with known times."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from skymark.model.duration import Span
from skymark.model.effort import Effort
from skymark.model.machine import Hardware, Load, MachineState, ProcessLimits
from skymark.model.manifest import Manifest
from skymark.model.plan import Plan, PlannedCell
from skymark.model.record import Cell, Record, Round, Status
from skymark.suites.loading.metrics import DECLARATION

BEGIN = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)

EFFORT = Effort(
    name="quick",
    min_rounds=2,
    max_rounds=4,
    target_relative_interval=0.1,
    cell_timeout_s=100.0,
    limits={"elements": 300},
)

GUESS = Span(low_s=1.0, expected_s=2.3, high_s=100.0)
"""Of one round of each cell."""


def cell(scenario: str = "CV-1", adapter: str = "numpy", elements: int = 300) -> Cell:
    return Cell(
        suite="loading",
        scenario=scenario,
        variant="small",
        adapter=adapter,
        specification={"elements": elements},
    )


def planned(one: Cell, guess: Span | None = GUESS) -> PlannedCell:
    return PlannedCell(cell=one, group=one.adapter, shard_key=one.label, guess=guess)


def plan(
    cells: Sequence[Cell],
    profile: str = "cpu",
    effort: Effort = EFFORT,
    guess: Span | None = GUESS,
) -> Plan:
    return Plan(
        suite="loading",
        profile=profile,
        effort=effort,
        cells=tuple(planned(one, guess) for one in cells),
    )


def machine() -> MachineState:
    hardware = Hardware(
        architecture="x86_64",
        cpu_model=None,
        physical_cores=2,
        logical_cores=2,
        memory_bytes=None,
        disk_kind=None,
        accelerators=(),
    )
    limits = ProcessLimits(**dict.fromkeys(ProcessLimits.model_fields))
    return MachineState(
        captured_at=BEGIN,
        hardware=hardware,
        limits=limits,
        load=Load(**dict.fromkeys(Load.model_fields)),
        system="Linux",
        filesystem=None,
        python="CPython 3.11",
        skymark="1",
        git=None,
    )


def manifest(plan: Plan, created_at: datetime = BEGIN) -> Manifest:
    return Manifest(
        run_id="run",
        created_at=created_at,
        plan=plan,
        plan_hash=plan.hash,
        declaration=DECLARATION,
        machine=machine(),
    )


def record(
    cell: Cell,
    starts_s: Sequence[float],
    *,
    timed_s: float = 1.0,
    end_s: float = 0.0,
    status: Status = Status.OK,
) -> Record:
    """A record whose rounds began so many seconds after the run did."""
    rounds = tuple(
        Round(
            round=number,
            started_at=BEGIN + timedelta(seconds=start_s),
            setup_s=0.0,
            timed_ns=int(timed_s * 1e9),
        )
        for number, start_s in enumerate(starts_s)
    )
    return Record(
        cell=cell,
        cell_hash=cell.hash,
        status=status,
        rounds=rounds,
        started_at=BEGIN,
        ended_at=BEGIN + timedelta(seconds=end_s),
    )
