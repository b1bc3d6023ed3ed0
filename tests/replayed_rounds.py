"""Make the tables of evidence.md that need real rounds, from one long run of equal ones.

    python -m tests.replayed_rounds docs/reference/evidence.md

measures the cells of ``ci_cpu`` (an hour), and with ``--run DIRECTORY`` reads a run that was
measured. Every block of consecutive rounds is a run of the same code: two of them that
are said to differ are a false verdict. And a time is spent again and again on the recorded rounds,
by skymark's rule and evenly: the order of the first three by all rounds is held to be the truth.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from pathlib import Path
from statistics import fmean, geometric_mean, median, quantiles

from skymark.model.effort import Allotment
from skymark.model.metric import Metric
from skymark.model.record import Record, Status
from skymark.model.sizes import percent
from skymark.report.judgement import judge
from skymark.rundir.reader import Run, open_run
from skymark.statistics.allocation import Allocation, Standing
from skymark.statistics.borrowing import lent_variances
from skymark.statistics.difference import Difference, Verdict
from skymark.statistics.interval import figure_of
from skymark.suites.loading.tuning import EFFORTS
from tests.duet_accuracy import MOVED, by_batches
from tests.faults.table import renew
from tests.measured_pairs import rates_of_batches
from tests.round_spread import spread

ROUNDS, BLOCK, LONG_BLOCK = 40, 8, 20
MARGIN = 0.10
TIME_S = 600.0
FIRST = 3


def measured(directory: Path) -> Path:
    """Measure many rounds of the profile's cells, and return the directory of the run."""
    options = ("--profile", "ci_cpu", "--rounds", str(ROUNDS), "--output", str(directory))
    subprocess.run([sys.executable, "-m", "skymark", "run", *options], check=True)
    return directory


# Two runs of the same code


@dataclass(frozen=True)
class Blocks:
    """The verdicts on every pair of blocks of consecutive rounds, cell by cell."""

    run: Run
    records: list[Record]
    metric: Metric
    size: int = BLOCK

    def pairs(self) -> Iterator[tuple[slice, slice]]:
        """Yield the rounds of two blocks, for each two of the run."""
        count = min(len(record.rounds) for record in self.records) // self.size
        blocks = [slice(number * self.size, (number + 1) * self.size) for number in range(count)]
        yield from combinations(blocks, 2)

    def by_interval(self, practical: float) -> list[list[Difference]]:
        """Return the differences as `skymark compare` has them, by pair of blocks and cell."""
        found = []
        for before, after in self.pairs():
            sides = [(_only(one, before), _only(one, after)) for one in self.records]
            judged = judge(sides, (self.metric,), practical)
            found.append([one.difference for one in judged.each.values()])
        return found

    def by_medians(self) -> list[list[bool]]:
        """Return whether the median of the rounds moved by 5 %."""
        values = [record.values(self.metric.name) for record in self.records]
        return [
            [abs(median(v[after]) / median(v[before]) - 1) >= MOVED for v in values]
            for before, after in self.pairs()
        ]

    def by_batches(self) -> list[list[bool]]:
        """Return what a t-test over the batches of each block's first round says."""
        rates = [rates_of_batches(self.run.directory, one.cell.id) for one in self.records]
        return [
            [by_batches(one[before], one[after]) for one in rates] for before, after in self.pairs()
        ]


def _only(record: Record, rounds: slice) -> Record:
    return record.model_copy(update={"rounds": record.rounds[rounds]})


def comparisons(blocks: Blocks) -> dict[str, list[str]]:
    """Return the rows of the table of comparisons."""

    def row(verdicts: list[list[bool]], conclusive: str = "–") -> list[str]:
        cells = [verdict for pair in verdicts for verdict in pair]
        return [f"{sum(cells)} of {len(cells)}", _share(map(any, verdicts)), conclusive]

    def compared(blocks: Blocks) -> list[str]:
        at_margin = [one for pair in blocks.by_interval(MARGIN) for one in pair]
        is_known = [one.verdict is not Verdict.INCONCLUSIVE for one in at_margin]
        verdicts = [[one.is_real for one in pair] for pair in blocks.by_interval(MOVED)]
        return row(verdicts, percent(fmean(is_known)))

    return {
        "`skymark compare`": compared(blocks),
        f"the same, {LONG_BLOCK} rounds": compared(replace(blocks, size=LONG_BLOCK)),
        "median moved 5 %": row(blocks.by_medians()),
        "t-test over batches": row(blocks.by_batches()),
    }


def _share(which: Iterator[bool]) -> str:
    values = list(which)
    return f"{sum(values)} of {len(values)}"


# A time, spent on recorded rounds


@dataclass
class Replay:
    """Cells that are measured again, each round being the next of those that were recorded."""

    records: list[Record]
    metric: Metric
    cost_s: dict[str, float]
    """Time of a round with its share of the process's start, by cell."""
    begin: int
    """The first round that is taken; after the last comes the first of all."""

    def __post_init__(self) -> None:
        self.values: dict[str, list[float]] = {record.cell.id: [] for record in self.records}
        self.left_s = TIME_S

    def measure(self, record: Record) -> None:
        """Take the next round of a cell."""
        recorded = record.values(self.metric.name)
        taken = self.values[record.cell.id]
        taken.append(recorded[(self.begin + len(taken)) % len(recorded)])
        self.left_s -= self.cost_s[record.cell.id]

    def spend_evenly(self) -> None:
        """Give every cell as many rounds as the others."""
        while self.left_s >= sum(self.cost_s.values()):
            for record in self.records:
                self.measure(record)

    def spend_where_it_decides(self) -> None:
        """Give rounds as `skymark run --time` does."""
        by_id = {record.cell.id: record for record in self.records}
        allocation = Allocation(self.metric, Allotment(time_s=TIME_S).bounds(EFFORTS["quick"]))
        while names := allocation.next_sweep(self._standings(), self.left_s, {}).names:
            for name in names:
                self.measure(by_id[name])

    def _standings(self) -> list[Standing]:
        return [
            Standing(
                *(cell.id, cell.label, tuple(self.values[cell.id]), len(self.values[cell.id])),
                round_s=self.cost_s[cell.id],
            )
            for cell in (record.cell for record in self.records)
        ]

    def right(self) -> dict[str, bool]:
        """Return whether the first three of each contest are those of all rounds, in order."""
        contests: dict[str, list[Record]] = defaultdict(list)
        for record in self.records:
            contests[record.cell.label].append(record)

        def first(cells: list[Record], values: dict[str, list[float]]) -> list[str]:
            by_rate = sorted(cells, key=lambda one: -geometric_mean(values[one.cell.id]))
            return [record.cell.adapter for record in by_rate[:FIRST]]

        truth = {one.cell.id: list(one.values(self.metric.name)) for one in self.records}
        return {
            label: first(cells, self.values) == first(cells, truth)
            for label, cells in contests.items()
        }


def costs_s(records: list[Record]) -> dict[str, float]:
    """Return the mean time from the begin of a cell's round to that of the next one, by cell."""
    begun = sorted(
        (one.started_at.timestamp(), record.cell.id) for record in records for one in record.rounds
    )
    took: dict[str, list[float]] = defaultdict(list)
    for (begin_s, cell), (end_s, _) in pairwise(begun):
        took[cell].append(end_s - begin_s)
    return {cell: fmean(each) for cell, each in took.items()}


def allocations(records: list[Record], metric: Metric) -> dict[str, list[str]]:
    """Return the rows of the table of times: contests ranked right, of all replays."""
    cost_s = costs_s(records)
    ways = {"where it decides": Replay.spend_where_it_decides, "evenly": Replay.spend_evenly}
    rows = {}
    for name, spend in ways.items():
        right, rounds, widths = [], [], []
        for begin in range(0, min(len(record.rounds) for record in records), BLOCK):
            replay = Replay(records, metric, cost_s, begin)
            spend(replay)
            right += replay.right().values()
            lent = lent_variances(replay.values)
            for cell, values in replay.values.items():
                rounds.append(len(values))
                figure = figure_of(values, metric.scale, lent.get(cell))
                widths.append(figure.relative_half_width)
        between = f"{min(rounds)} to {max(rounds)}"
        rows[name] = [f"{sum(right)} of {len(right)}", between, f"{median(rounds):g}"]
        rows[name] += [_percent(width) for width in middle_and_wide(widths)]
    return rows


def middle_and_wide(values: list[float]) -> tuple[float, float]:
    """Return the median and the 90th percentile."""
    return median(values), quantiles(values, n=10)[-1]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def main() -> None:
    """Measure or read, renew both tables of the page, and print how far rounds lie apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--run", type=Path, help="directory of a run of many rounds")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        run = open_run(arguments.run or measured(Path(name) / "run"))
        metric = run.declaration.primary_metric
        records = [record for record in run.records if record.status is Status.OK]
        told = comparisons(Blocks(run, records, metric))
    columns = ("eight rounds and eight others", "cells said to differ", "in pairs of runs",
               "known within 10 %")  # fmt: skip
    renew(arguments.page, "equal rounds", columns, tuple(told), told)
    spent = allocations(records, metric)
    columns = ("ten minutes spent", "first three right", "rounds of a cell", "median",
               "intervals: half below ±", "nine in ten below ±")  # fmt: skip
    renew(arguments.page, "replayed time", columns, tuple(spent), spent)
    middle, wide = middle_and_wide([spread(record, metric.name) for record in records])
    print(f"rounds' standard deviation: median {_percent(middle)}, nine in ten {_percent(wide)}")


if __name__ == "__main__":
    main()
