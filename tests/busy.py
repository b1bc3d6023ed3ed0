"""Measure beside a program that comes and goes, and hold the rounds to what it took.

    python -m tests.busy docs/reference/busy.md --time 10m

starts a program that takes a whole core in half of every 20 seconds and logs its own CPU time,
measures beside it and then alone, and prints two tables: the intervals of both runs, and how many
rounds were named as disturbed by how much the program took of them. ``--runs DIRECTORY`` reads two
runs that were measured, ``beside`` and ``alone``, with the program's log.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median, quantiles

from skymark.model.record import Round, Status
from skymark.model.sizes import percent
from skymark.rundir.reader import Run, open_run
from tests.faults.table import renew

PERIOD_S, WORK_S = 20.0, 10.0
STEP_S = 0.05
"""Time between two lines of the log."""
LOG = "disturber.jsonl"


def disturb(log: Path) -> None:
    """Take a core in a part of every period, until killed; log the wall clock and own CPU time."""
    begin = time.monotonic()
    with log.open("w", buffering=1) as file:
        while True:
            note_until = time.monotonic() + STEP_S
            if (time.monotonic() - begin) % PERIOD_S < WORK_S:
                while time.monotonic() < note_until:
                    pass
            else:
                time.sleep(STEP_S)
            file.write(f"[{time.time():.4f}, {time.process_time():.4f}]\n")


@contextmanager
def disturber(log: Path) -> Iterator[None]:
    """Run the program beside the block."""
    program = [sys.executable, "-m", "tests.busy", "--disturb", str(log)]
    process = subprocess.Popen(program)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class Truth:
    """CPU time of the disturber over the wall clock."""

    walls_s: Sequence[float]
    cpus_s: Sequence[float]

    @classmethod
    def of(cls, log: Path) -> Truth:
        """Read a log; a last line that is cut is left out."""
        lines = [line for line in log.read_text().splitlines() if line.endswith("]")]
        walls, cpus = zip(*map(json.loads, lines), strict=True)
        return cls(walls, cpus)

    def cpu_s(self, moment_s: float) -> float:
        """Return its CPU time at a moment, between two lines in proportion."""
        after = min(max(1, bisect_left(self.walls_s, moment_s)), len(self.walls_s) - 1)
        early, late = self.walls_s[after - 1], self.walls_s[after]
        part = min(1.0, max(0.0, (moment_s - early) / (late - early))) if late > early else 0.0
        return self.cpus_s[after - 1] + part * (self.cpus_s[after] - self.cpus_s[after - 1])

    def share_of(self, began_at: datetime, seconds: float, cores: float) -> float:
        """Return the share of the cores that it took in a time."""
        end_s = (began_at + timedelta(seconds=seconds)).timestamp()
        return (self.cpu_s(end_s) - self.cpu_s(began_at.timestamp())) / (cores * seconds)


def rounds_of(run: Run) -> list[Round]:
    """Return the rounds of a run of which the watch knows the time and the share."""
    return [
        round
        for record in run.records
        for round in record.rounds
        if round.machine is not None and round.machine.began_at is not None
    ]


def named(run: Run, truth: Truth, least: float, most: float = 1e9) -> tuple[int, int]:
    """Return the disturbed rounds, and all, of which the truth is a multiple of the allowed share.

    Args:
        run: measured beside the disturber.
        truth: its log.
        least: smallest multiple.
        most: largest multiple.
    """
    inside = []
    for round in rounds_of(run):
        use = round.machine
        if use is None or use.began_at is None or not use.most_share:
            continue
        share = truth.share_of(use.began_at, use.wall_s, use.cores)
        if least * use.most_share < share <= most * use.most_share:
            inside.append(round.is_disturbed)
    return sum(inside), len(inside)


def half_widths(run: Run, metric: str) -> list[float]:
    """Return the relative half width of each ranked cell's interval, in ascending order."""
    widths = [
        record.metrics[metric].relative_half_width
        for record in run.records
        if record.status is Status.OK and metric in record.metrics and not record.disturbed
    ]
    return sorted(width for width in widths if width is not None)


def held(beside: Run, alone: Run, metric: str) -> tuple[int, int]:
    """Return the intervals beside the disturber that hold the value alone, and all of them."""
    quiet = {record.cell.id: record for record in alone.records if metric in record.metrics}
    pairs = [
        (record.metrics[metric], quiet[record.cell.id].metrics[metric].value)
        for record in beside.records
        if metric in record.metrics and record.cell.id in quiet and not record.disturbed
    ]
    inside = [
        figure.low <= value <= figure.high
        for figure, value in pairs
        if figure.low is not None and figure.high is not None
    ]
    return sum(inside), len(inside)


def of(part: int, whole: int) -> str:
    """Return a count of a whole, with its share."""
    return f"{part} of {whole}{f' ({percent(part / whole, 1)})' if whole else ''}"


def interval_row(run: Run, others: str) -> list[str]:
    """Return a run's line in the table of intervals."""
    metric = run.declaration.primary
    widths = half_widths(run, metric)
    tenth = quantiles(widths, n=10)[-1] if len(widths) > 1 else max(widths, default=0.0)
    disturbed = sum(record.disturbed for record in run.records)
    middle = f"± {percent(median(widths), 1)}" if widths else "–"
    return [str(len(widths)), str(disturbed), middle, f"± {percent(tenth, 1)}", others]


def measured(directory: Path, options: Sequence[str]) -> None:
    """Measure beside the disturber, and then alone."""
    command = [sys.executable, "-m", "skymark", "run", *options, "--output"]
    directory.mkdir(parents=True, exist_ok=True)
    with disturber(directory / LOG):
        subprocess.run([*command, str(directory / "beside")], check=False)
    subprocess.run([*command, str(directory / "alone")], check=False)


def main() -> None:
    """Measure or read the runs, and renew both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, nargs="?")
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--disturb", type=Path)
    asked, options = parser.parse_known_args()
    if asked.disturb is not None:
        disturb(asked.disturb)
    with tempfile.TemporaryDirectory() as temporary:
        directory = asked.runs or Path(temporary)
        if not (directory / "alone").exists():
            measured(directory, options or ("--profile", "ci_cpu", "--time", "10m"))
        beside, alone = open_run(directory / "beside"), open_run(directory / "alone")
        truth = Truth.of(directory / LOG)
    rows = {
        "beside": interval_row(beside, of(*held(beside, alone, beside.declaration.primary))),
        "alone": interval_row(alone, "–"),
    }
    columns = ("run", "cells", "disturbed cells", "median", "nine in ten below", "hold the value")
    kinds = {
        "more than the share": (1.0, 1e9),
        "more than 1.5 × the share": (1.5, 1e9),
        "less than half the share": (-1.0, 0.5),
    }
    classes = {name: [of(*named(beside, truth, *bounds))] for name, bounds in kinds.items()}
    if asked.page is None:
        print(json.dumps({"intervals": rows, "named": classes}, indent=1))
        return
    renew(asked.page, "busy intervals", columns, list(rows), rows)
    renew(asked.page, "named rounds", ("the program took", "named"), list(classes), classes)


if __name__ == "__main__":
    main()
