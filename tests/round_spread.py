"""Make the table of docs/reference/evidence.md: how far the rounds of a cell lie apart.

    python -m tests.round_spread docs/reference/evidence.md

measures (a quarter of an hour), and with ``--run DIRECTORY`` reads a run that was measured.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean, median, quantiles, stdev

from skymark.model.record import Record, Status
from skymark.rundir.reader import Run, open_run
from tests.faults.table import renew

SCENARIOS = ("CV-1", "TAB-1", "PC-1")
ADAPTERS = ("numpy", "pytorch", "tfdata", "grain", "spdl", "webdataset")
ROUNDS = 8


def measured(directory: Path) -> Path:
    """Measure the cells of the table, and return the directory of the run."""
    cells = ("--scenarios", *SCENARIOS, "--adapters", *ADAPTERS)
    options = ("--effort", "quick", "--rounds", str(ROUNDS), "--output", str(directory))
    subprocess.run([sys.executable, "-m", "skymark", "run", *cells, *options], check=True)
    return directory


def spread(record: Record, metric: str) -> float:
    """Return the standard deviation of a metric's rounds, over their mean."""
    values = record.values(metric)
    return stdev(values) / fmean(values)


def spreads_of(run: Run) -> dict[str, dict[str, float]]:
    """Return the spread of the primary metric by label, then by adapter, of cells that ended ok."""
    found: dict[str, dict[str, float]] = {}
    for record in run.records:
        if record.status is Status.OK:
            value = spread(record, run.declaration.primary_metric.name)
            found.setdefault(record.cell.label, {})[record.cell.adapter] = value
    return found


def main() -> None:
    """Measure or read, write the table, and print median and 90th percentile of all cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--run", type=Path, help="directory of a run of these cells")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        run = open_run(arguments.run or measured(Path(name) / "run"))
        spreads = spreads_of(run)
    rows = {
        label: [f"{100 * cells[adapter]:.1f} %" if adapter in cells else "" for adapter in ADAPTERS]
        for label, cells in spreads.items()
    }
    renew(arguments.page, "round spread", ("cell", *ADAPTERS), tuple(rows), rows)
    values = [value for cells in spreads.values() for value in cells.values()]
    print(
        f"{len(values)} cells: median {100 * median(values):.1f} %, "
        f"90th percentile {100 * quantiles(values, n=10)[-1]:.1f} %"
    )


if __name__ == "__main__":
    main()
