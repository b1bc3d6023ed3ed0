"""A run in the format of pytest-benchmark's JSON: seconds per unit of work, round by round."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skymark.model.metric import Metric
from skymark.model.record import Record, Status
from skymark.run.price import rate_of

if TYPE_CHECKING:
    from skymark.run.reader import Run

FORMAT = "pytest-benchmark"
VERSION = "5.1.0"
"""Of pytest-benchmark, whose layout of a file this is."""


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
    """Return the time of each round of an `ok` record; none of the others."""
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
