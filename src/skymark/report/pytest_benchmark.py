"""Files of pytest-benchmark: runs written as its JSON, and its JSON read as a run."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import Field, ValidationError

from skymark.model.base import Frozen, NonNegative, faults_of
from skymark.model.effort import Effort
from skymark.model.errors import UsageError
from skymark.model.machine import Hardware, Load, MachineState, ProcessLimits
from skymark.model.manifest import Manifest
from skymark.model.metric import Declaration, Metric, Shown, Words
from skymark.model.plan import Plan, PlannedCell
from skymark.model.record import UNSAFE, Cell, Record, Round, Status
from skymark.plain_files import read_regular
from skymark.rundir.reader import Run, open_run
from skymark.rundir.row import rate_of
from skymark.statistics.interval import figures_of

FORMAT = "pytest-benchmark"
VERSION = "5.1.0"
"""Version of pytest-benchmark with this layout of the file."""


def benchmark_file(run: Run) -> str:
    """Return the `ok` records of a run as a file of pytest-benchmark.

    A round's time is that of one unit of the suite's rate, such as a sample; where a suite has no
    rate, that of the timed region.
    """
    rate = rate_of(run.declaration)
    machine = run.manifest.machine
    implementation, _, python = machine.python.partition(" ")
    system, _, release = machine.system.partition(" ")
    content = {
        "machine_info": {
            "machine": machine.hardware.architecture,
            "processor": machine.hardware.architecture,
            "python_implementation": implementation,
            "python_version": python,
            "system": system,
            "release": release,
            "cpu": {
                "brand_raw": machine.hardware.cpu_model,
                "count": machine.hardware.logical_cores,
                "arch": machine.hardware.architecture,
            },
        },
        "commit_info": {
            "id": machine.git.commit if machine.git else None,
            "dirty": machine.git.dirty if machine.git else None,
        },
        "benchmarks": [
            _benchmark(record, rate, seconds)
            for record in run.records
            if (seconds := _seconds(record, rate))
        ],
        "datetime": run.manifest.created_at.isoformat(),
        "version": VERSION,
    }
    return json.dumps(content, indent=1)


def _seconds(record: Record, rate: Metric | None) -> list[float]:
    """Return the time of each round of an `ok` record; nothing for other records."""
    if record.status is not Status.OK:
        return []
    if rate is None:
        return [one.timed_ns / 1e9 for one in record.rounds if one.timed_ns]
    return [1 / value for value in record.values(rate.name) if value > 0]


def _benchmark(record: Record, rate: Metric | None, seconds: Sequence[float]) -> dict[str, Any]:
    cell = record.cell
    work = cell.label.removeprefix(f"{cell.scenario}:")
    name = f"{work}[{cell.adapter}]"
    return {
        "group": cell.label,
        "name": name,
        "fullname": f"{cell.scenario}::{name}",
        "params": {"adapter": cell.adapter},
        "param": cell.adapter,
        "extra_info": {
            "seconds_per": "round" if rate is None else rate.heading.removesuffix("/s"),
            "metrics": {name: figure.value for name, figure in record.metrics.items()},
        },
        "options": {},
        "stats": _stats(seconds),
    }


def _stats(seconds: Sequence[float]) -> dict[str, Any]:
    mean = statistics.fmean(seconds)
    several = len(seconds) > 1
    low, median, high = (
        statistics.quantiles(seconds, n=4, method="inclusive") if several else [seconds[0]] * 3
    )
    return {
        "min": min(seconds),
        "max": max(seconds),
        "mean": mean,
        "stddev": statistics.stdev(seconds) if several else 0.0,
        "rounds": len(seconds),
        "median": median,
        "iqr": high - low,
        "q1": low,
        "q3": high,
        "iqr_outliers": 0,
        "stddev_outliers": 0,
        "outliers": "0;0",
        "ld15iqr": min(seconds),
        "hd15iqr": max(seconds),
        "ops": 1 / mean,
        "total": sum(seconds),
        "data": list(seconds),
        "iterations": 1,
    }


BATCHES = 30
"""Most values that successive rounds are averaged into. They are of one process and depend
on each other, so that to take each for itself would show differences that are none; the means of
batches hardly do (Law, *Simulation Modeling and Analysis*, 9.5.3: batch means)."""
NO_PARAMETER = "pytest"
SECONDS = Metric(
    name="seconds",
    heading="seconds",
    unit="s",
    description="time of a round",
    better="lower",
    words=Words(better="faster", worse="slower", best="fastest"),
    compared=True,
    gated=True,
    shown=Shown(digits=4),
)
DECLARATION = Declaration(suite=FORMAT, metrics=(SECONDS,), primary=SECONDS.name)
EFFORT = Effort(
    name=FORMAT, min_rounds=1, max_rounds=1, target_relative_interval=0.0, cell_timeout_s=0.0
)


class _Read(Frozen, extra="ignore"):
    """A part of the file, of which only some fields are of use."""


class _Stats(_Read):
    mean: NonNegative
    data: tuple[NonNegative, ...] = ()


class _Benchmark(_Read):
    fullname: str
    param: str | None = None
    stats: _Stats


class _Cpu(_Read):
    brand_raw: str | None = None
    count: int | None = None
    arch: str | None = None


class _MachineInfo(_Read):
    machine: str = "unknown"
    python_implementation: str = ""
    python_version: str = ""
    system: str = ""
    release: str = ""
    cpu: _Cpu = _Cpu()


class _File(_Read):
    machine_info: _MachineInfo
    benchmarks: tuple[_Benchmark, ...] = Field(min_length=1)
    datetime: datetime
    version: str


def run_at(place: Path) -> Run:
    """Open a run's directory, or a file of pytest-benchmark as if it were one.

    Raises:
        UsageError: it is neither.
    """
    return read_benchmarks(place) if place.is_file() else open_run(place)


def read_benchmarks(path: Path) -> Run:
    """Read a file of pytest-benchmark.

    Raises:
        UsageError: it cannot be read, is no such file, or has two benchmarks of one name.
    """
    try:
        data = read_regular(path, through_links=True)
        content = _File.model_validate(json.loads(data))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{path} is no file of pytest-benchmark: {_reason(error)}. Name a run's directory, or "
            "what `pytest --benchmark-json=FILE` or `skymark export --to pytest-benchmark` wrote"
        ) from error
    records = [_record(one, _when(content)) for one in content.benchmarks]
    cells = {record.cell.id: record.cell for record in records}
    if len(cells) < len(records):
        raise UsageError(f"{path} has two benchmarks of one name; compare files of one run each")
    plan = Plan(
        suite=FORMAT,
        profile=FORMAT,
        effort=EFFORT,
        cells=tuple(
            PlannedCell(cell=one, group=one.scenario, shard_key=one.scenario)
            for one in cells.values()
        ),
    )
    name = UNSAFE.sub("_", path.stem)[:100]
    try:
        manifest = Manifest(
            run_id=f"{name}-{sha256(data).hexdigest()[:6]}",
            created_at=_when(content),
            finished=True,
            plan=plan,
            plan_hash=plan.hash,
            declaration=DECLARATION,
            machine=_machine(content),
        )
    except ValidationError as error:
        raise UsageError(f"cannot read {path}: {_reason(error)}") from error
    return Run(path, manifest, tuple(records))


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return faults_of(error)[0]
    return str(error) or type(error).__name__


def _when(content: _File) -> datetime:
    time = content.datetime
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _record(one: _Benchmark, when: datetime) -> Record:
    scenario, _, name = one.fullname.partition("::")
    adapter = one.param or NO_PARAMETER
    cell = Cell(
        suite=FORMAT,
        scenario=scenario,
        variant=name.removesuffix(f"[{adapter}]"),
        adapter=adapter,
    )
    rounds = tuple(
        Round(
            round=number,
            started_at=when,
            setup_s=0.0,
            timed_ns=round(seconds * 1e9),
            metrics={SECONDS.name: seconds},
        )
        for number, seconds in enumerate(_batched(one.stats))
    )
    return Record(
        cell=cell,
        cell_hash=cell.hash,
        status=Status.OK,
        rounds=rounds,
        metrics=figures_of(rounds, (SECONDS,)),
        started_at=when,
        ended_at=when,
    )


def _batched(stats: _Stats) -> list[float]:
    """Return the rounds as the means of batches; the mean alone where they were not saved."""
    values = stats.data
    if not values:
        return [stats.mean]
    count = min(BATCHES, len(values))
    ends = [len(values) * number // count for number in range(count + 1)]
    return [fmean(values[low:high]) for low, high in pairwise(ends)]


def _machine(content: _File) -> MachineState:
    info: Any = content.machine_info
    nothing = dict.fromkeys(Load.model_fields)
    return MachineState(
        captured_at=_when(content),
        hardware=Hardware(
            architecture=info.cpu.arch or info.machine,
            cpu_model=info.cpu.brand_raw,
            physical_cores=None,
            logical_cores=info.cpu.count,
            memory_bytes=None,
            disk_kind=None,
            accelerators=None,
        ),
        limits=ProcessLimits(**dict.fromkeys(ProcessLimits.model_fields)),
        load=Load(**nothing),
        system=f"{info.system} {info.release}",
        filesystem=None,
        python=f"{info.python_implementation} {info.python_version}",
        skymark=f"none ({FORMAT} {content.version})",
        git=None,
    )
