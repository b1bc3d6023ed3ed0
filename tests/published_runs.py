"""Make the tables of docs/reference/measured.md from the runs in benchmarks/results.

python -m tests.published_runs docs/reference/measured.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from skymark.report.markdown import markdown, markdown_table, run_markdown
from skymark.rundir.reader import Run, open_run

RUNS = Path(__file__).parents[1] / "benchmarks" / "results"
BEGIN, END = "<!-- published runs: begin -->", "<!-- published runs: end -->"
HEAD = ("run", "date", "commit", "CPU", "cores", "GPU", "cells")
COLUMNS = 6
"""The adapter's name, the primary metric and its ranking; `skymark report` shows the others."""


def published() -> list[Run]:
    """Return the runs in the repository, by name."""
    return [open_run(file.parent) for file in sorted(RUNS.glob("*/manifest.json"))]


def tables() -> str:
    """Return a row per run, then each run's own tables."""
    runs = published()
    lines = markdown_table(HEAD, map(row, runs), names=len(HEAD))
    ranked = (narrowed(line) for run in runs for line in run_markdown(run).splitlines())
    return "\n".join([*lines, "", *ranked, ""])


def narrowed(line: str) -> str:
    """Return a line, a table's row with its first columns only; no text has a bar of its own."""
    cells = line.split(" | ")
    is_wide = line.startswith("| ") and len(cells) > COLUMNS
    return f"{' | '.join(cells[:COLUMNS])} |" if is_wide else line


def row(run: Run) -> Iterator[str]:
    """Yield the cells of a run's row."""
    machine = run.manifest.machine
    hardware = machine.hardware
    yield f"[`{run.manifest.run_id}`](../../benchmarks/results/{run.manifest.run_id})"
    yield f"{run.manifest.created_at:%Y-%m-%d}"
    yield "–" if machine.git is None else machine.git.commit[:7]
    yield markdown(hardware.cpu_model or hardware.architecture)
    yield str(machine.limits.usable_cores or hardware.logical_cores or "–")
    yield markdown(", ".join(one.name for one in hardware.accelerators or ())) or "none"
    yield ", ".join(f"{number} {status.value}" for status, number in run.counts.items())


def renewed(page: str) -> str:
    """Return a page with the tables between its two markers made anew."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{tables()}{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(renewed(page.read_text("utf-8")), "utf-8")
