"""Plans, records and estimates of known durations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta

import pytest

from skymark.cloud.cost.duration import Duration, Span
from skymark.cloud.cost.quote import Quote
from skymark.cloud.cost.prices import Offer
from skymark.model.cell import Cell
from skymark.model.effort import Effort
from skymark.model.machine import Hardware, Limits, Load, Machine
from skymark.model.manifest import Manifest
from skymark.model.plan import Plan, PlannedCell
from skymark.model.record import Record, Resources, RoundSummary, Status

BEGIN = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)

EFFORT = Effort(
    name="quick",
    min_rounds=2,
    max_rounds=4,
    target_relative_interval=0.1,
    min_seconds=1.0,
    max_seconds=5.0,
    cell_timeout_s=100.0,
    verified_elements=500,
)


def cell(scenario: str = "CV-1", adapter: str = "numpy", elements: int = 300) -> Cell:
    size = {"elements": elements, "batch_size": 32}
    return Cell(
        suite="loading",
        scenario=scenario,
        variant="small",
        adapter=adapter,
        specification={"size": size},
    )


def plan(cells: Sequence[Cell], profile: str = "cpu", effort: Effort = EFFORT) -> Plan:
    return Plan(profile=profile, effort=effort, cells=tuple(PlannedCell(cell=one) for one in cells))


def machine() -> Machine:
    hardware = Hardware(
        architecture="x86_64",
        cpu_model=None,
        physical_cores=2,
        logical_cores=2,
        memory_bytes=None,
        disk_kind=None,
        accelerators=(),
    )
    limits = Limits(**dict.fromkeys(Limits.model_fields))
    return Machine(
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
        RoundSummary(
            round=number,
            started_at=BEGIN + timedelta(seconds=start_s),
            samples_per_s=1.0,
            bytes_per_s=1.0,
            first_batch_ns=None,
            setup_s=0.0,
            import_s=0.0,
            elements=1,
            timed_ns=int(timed_s * 1e9),
            utilisation=None,
            resources=Resources(),
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


def offer(hourly_price_usd: float, **fields) -> Offer:
    known = {
        "cloud": "lambda",
        "region": "us-east-1",
        "instance_type": "gpu_1x_a100",
        "accelerators": "A100:1",
        "spot": False,
    }
    return Offer(**{**known, **fields}, hourly_price_usd=hourly_price_usd)


def span(low_s: float, expected_s: float, high_s: float) -> Span:
    return Span(low_s=low_s, expected_s=expected_s, high_s=high_s)


@pytest.fixture
def make_quote() -> Callable[..., Quote]:
    """Half an hour, an hour, two hours of work, and no more around it than is given."""

    def make(*offers: Offer, around=(0, 0, 0), **fields) -> Quote:
        duration = Duration(
            provisioning=span(*around),
            set_up=span(0, 0, 0),
            running=span(1800, 3600, 7200),
            ending=span(0, 0, 0),
            cells=12,
            known_cells=5,
        )
        known = {
            "profile": "gpu_a100",
            "num_nodes": 1,
            "deadline_s": None,
            "duration": duration,
            "catalogue_date": date(2026, 10, 3),
        }
        return Quote(offers=offers, **{**known, **fields})

    return make
