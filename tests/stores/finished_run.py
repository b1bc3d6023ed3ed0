"""A finished run's directory, with everything that a store is to hold."""

from __future__ import annotations

from pathlib import Path

from skymark.model.record import Cause, Status
from skymark.rundir.directory import RunDirectory
from skymark.suites.loading.suite import LoadingSuite
from tests.data.make_run import cell, ended, measured, rounds_of, write_run

FAST = {"numpy": 60_000, "grain": 96_000}


def make_run(path: Path) -> Path:
    """Write a run of three cells: two measured, one failed."""
    rounds = {name: rounds_of(speed, name=name) for name, speed in FAST.items()}
    records = [measured(cell("TAB-1", name), rounds[name]) for name in FAST]
    died = Cause(kind="worker-died", message="the worker was killed by signal 9")
    records.append(ended(cell("TAB-1", "ray"), Status.FAILED, died))
    write_run(path, records)
    run = RunDirectory(path, sample_columns=LoadingSuite.declaration.sample_columns)
    for record in records:
        run.write_record(record, rounds.get(record.cell.adapter, ()))
        run.write_log(record.cell, f"what {record.cell.id} printed\n")
    (path / "rounds" / "loading.TAB-1.small.ray").mkdir(parents=True)
    (path / "rounds" / "loading.TAB-1.small.ray" / "0.json").write_text("{}")
    run.write_sums()
    return path
