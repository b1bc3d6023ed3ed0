"""Make the table of docs/scaling.md: each library with more and more workers, by execution model.

    python -m tests.scaling docs/scaling.md --workers 1 2 4

measures images of CV-1 with each library's own choice of processes or threads, and with the other
models of SPDL and Grain. These two also run in an interpreter without the lock, if one is there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skymark.model.record import Record, Status
from skymark.report.text import facts_of
from skymark.rundir.reader import open_run
from skymark.suites.loading.registry import adapters
from tests.faults.table import renew

SCENARIO = "CV-1:medium"
BATCH_SIZE = 16
"""Of 5,000 images, so that a stream is left of an epoch with 16 workers of two batches each."""
WORKERS = (1, 2, 4, 8, 16)
FREE_THREADED = ("python3.14t", "python3.13t")
"""Interpreters without Python's lock, the newest first."""
LACKING = "no such interpreter here"
ELSEWHERE = frozenset({"s3torchconnector", "torchcodec", "megatron", "ffcv"})
"""Adapters that do not read CV-1 from local files, or that do not install by themselves."""


@dataclass(frozen=True)
class Way:
    """An execution model, and the libraries and settings that it is measured with."""

    name: str
    adapters: Sequence[str]
    settings: Sequence[str] = ()
    python: str = sys.executable
    environment: Sequence[str] = ()


@dataclass
class Row:
    """What one library reached by one model: rate and cores by number of workers."""

    cells: dict[int, str] = field(default_factory=dict)
    limit: str = ""


def measured(way: Way, workers: int, effort: str, directory: Path) -> list[Record]:
    """Measure one way with so many workers."""
    settings = (f"batch_size={BATCH_SIZE}", *way.settings)
    command = [way.python, "-m", "skymark", "run", "--scenarios", SCENARIO, "--adapters"]
    command += [*way.adapters, "--workers", str(workers), "--set", *settings, *way.environment]
    command += ["--effort", effort, "--rounds", "1", "--output", os.fspath(directory)]
    done = subprocess.run(command, check=False)
    if done.returncode not in {0, 1}:
        raise SystemExit(f"{' '.join(command)} ended with status {done.returncode}")
    return list(open_run(directory).records)


def execution(record: Record) -> str:
    """Return the model in which a record's batches were made, without the number of workers."""
    said = str(record.conditions.get("execution", ""))
    word = next((word for word in ("process of", "process", "thread") if word in said), "")
    return {
        "process of": "threads in a process",
        "process": "processes",
        "thread": "the calling thread" if "calling" in said else "threads",
    }.get(word, said)


def note(record: Record, row: Row, workers: int) -> None:
    """Add a record to its row."""
    if record.status is not Status.OK:
        row.cells[workers] = record.status.value
        return
    names = ("samples_per_s", "cores_used", "cores_idle")
    rate, used, idle = (record.metrics[name].value for name in names)
    row.cells[workers] = f"{rate:,.0f} · {used:.1f} of {used + idle:.1f}"
    said = [one.message for one in record.warnings if one.kind == "unused-cores"]
    row.limit = said[0].partition(": ")[2] if said else ""


def ways(python: str | None, venv: Path) -> list[Way]:
    """Return the models: first each library's own, then the others of Grain and SPDL."""
    known = [slug for slug in adapters() if slug not in ELSEWHERE]
    both = ("grain", "spdl")
    found = [
        Way("own", known),
        Way("threads", both, ("grain_processes=0", "spdl_execution=threads")),
        Way("threads in a process", ("spdl",), ("spdl_execution=process",)),
    ]
    if python is not None:
        options = ("grain_processes=0", "spdl_execution=threads")
        made = os.fspath(without_lock(python, venv, both))
        found.append(Way("free-threaded", both, options, made, ("--env", "current")))
    return found


def without_lock(python: str, venv: Path, libraries: Sequence[str]) -> Path:
    """Make a venv of an interpreter without the lock, with skymark and libraries; its Python."""
    subprocess.run(["uv", "venv", "--quiet", "--python", python, os.fspath(venv)], check=True)
    made = venv / "bin" / "python"
    base = ("numpy", "pillow", "av", "pyarrow")
    install = ["uv", "pip", "install", "--quiet", "--python", os.fspath(made)]
    subprocess.run([*install, ".", *base, *libraries], check=True)
    return made


def rows_of(
    chosen: Sequence[Way], workers: Sequence[int], effort: str, directory: Path
) -> dict[str, Row]:
    """Measure every way with every number of workers."""
    rows: dict[str, Row] = {}
    for way in chosen:
        for count in workers:
            place = directory / f"{way.name}-{count}".replace(" ", "-")
            for record in measured(way, count, effort, place):
                named = execution(record) if record.status is Status.OK else way.name
                model = way.name if way.name == "free-threaded" else named
                note(record, rows.setdefault(f"{record.cell.adapter}, {model}", Row()), count)
    return rows


def table(rows: Mapping[str, Row], workers: Sequence[int]) -> dict[str, list[str]]:
    """Return the columns of the table by row."""
    return {
        name: [*(row.cells.get(count, "") for count in workers), row.limit]
        for name, row in rows.items()
    }


def main() -> None:
    """Measure, and renew the table and the machine in the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--workers", nargs="+", type=int, default=list(WORKERS))
    parser.add_argument("--adapters", nargs="+", help="only these libraries")
    parser.add_argument("--effort", default="quick", help="of each round, such as check")
    asked = parser.parse_args()
    python = next(filter(None, map(shutil.which, FREE_THREADED)), None)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        chosen = ways(python, directory / "venv")
        if asked.adapters:
            kept = {way.name: [a for a in way.adapters if a in asked.adapters] for way in chosen}
            chosen = [
                Way(way.name, kept[way.name], way.settings, way.python, way.environment)
                for way in chosen
                if kept[way.name]
            ]
        rows = rows_of(chosen, asked.workers, asked.effort, directory)
        facts = facts_of(open_run(next(directory.glob("*-*"))))
    cells = table(rows, asked.workers)
    if python is None:
        cells["grain and spdl, free-threaded"] = [LACKING, *[""] * len(asked.workers)]
    heads = [f"{count} worker{'s' * (count > 1)}" for count in asked.workers]
    columns = ("library, and what works", *heads, "limit with the most workers")
    renew(asked.page, "scaling", columns, sorted(cells), cells)
    name_machine(asked.page, facts)


def name_machine(page: Path, facts: str) -> None:
    """Write the machine's facts between their markers in the page."""
    begin, end = "<!-- scaling machine: begin -->", "<!-- scaling machine: end -->"
    before, rest = page.read_text().split(begin)
    after = rest.split(end)[1]
    page.write_text(f"{before}{begin}\nMachine: {facts}.\n{end}{after}")


if __name__ == "__main__":
    main()
