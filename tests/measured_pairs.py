"""Make the table of docs/accuracy.md of sides that were measured in turn, equal ones and others.

    python -m tests.measured_pairs docs/accuracy.md

measures for an hour and wants a machine on which nothing else runs; ``--sides 0`` measures the
first kind of sides alone. With ``--runs DIRECTORY`` what was measured stays there, and is read
where it lies already. Ten pairs of each cell are drawn by chance again and again, and judged
together as one run of ten pairs is. The slower side is this commit with a wait in the NumPy loader,
as a commit that no branch has.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median, stdev

import numpy as np
import pyarrow.parquet as pq

from skymark.execute.pairs import baseline_path
from skymark.model.metric import Metric
from skymark.model.record import Record, Status
from skymark.rundir.reader import Run, open_run
from skymark.statistics.difference import (
    PAIRED_PRACTICAL,
    Difference,
    corrected,
    paired_difference,
    paired_values,
)
from tests.duet_accuracy import METRIC, PAIRS, SEED, by_batches, by_medians
from tests.faults.table import renew

ROOT = Path(__file__).parents[1]
LOADER = "src/skymark/suites/loading/adapters/numpy.py"
TAKEN = "for batch in batches_of(elements, job):"
SLOWED = "for batch in slowed(batches_of(elements, job), {share}):"
WAIT = '''

def slowed(batches: Iterator[Batch], share: float) -> Iterator[Batch]:
    """Take a share longer for each batch than it took."""
    import time

    begin = time.perf_counter()
    for batch in batches:
        end = (1 + share) * time.perf_counter() - share * begin
        while time.perf_counter() < end:
            pass
        yield batch
        begin = time.perf_counter()
'''


@dataclass(frozen=True)
class Sides:
    """What two sides are, and how often each cell of them is measured."""

    name: str
    adapters: tuple[str, ...]
    scenarios: tuple[str, ...]
    pairs: int
    slowdown: float = 0.0
    """The share that the baseline's NumPy loader takes longer."""
    practical: float = PAIRED_PRACTICAL
    effort: str = "quick"

    def options(self) -> list[str]:
        """Return those of ``skymark run``."""
        cells = ("--scenarios", *self.scenarios, "--adapters", *self.adapters)
        axes = ("--axis", "depth=1,10") if "PC-1" in self.scenarios else ()
        return [*cells, *axes, "--effort", self.effort, "--rounds", str(self.pairs)]


CELLS = ("NLP-1", "TAB-1", "CV-1", "PC-1")
EACH = (
    Sides("equal", ("numpy", "pytorch"), CELLS, pairs=40),
    Sides("5 % apart", ("numpy",), CELLS, pairs=40, slowdown=0.05),
    Sides(
        *("2 % apart, `rigorous`, margin 1 %", ("numpy",), ("NLP-1", "TAB-1"), 20),
        slowdown=0.02,
        practical=0.01,
        effort="rigorous",
    ),
)
COMPARISONS = 500
"""Of each kind, cells of one draw counted each."""


def slower_commit(share: float) -> str:
    """Make a commit that is HEAD with the wait, and return its hash, which is always the same."""
    text = (ROOT / LOADER).read_text()
    assert text.count(TAKEN) == 1
    slow = text.replace(TAKEN, SLOWED.format(share=share)) + WAIT
    with tempfile.TemporaryDirectory() as folder:
        dates = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2000-01-01T00:00:00Z")
        variables = {**os.environ, **dates, "GIT_INDEX_FILE": str(Path(folder) / "index")}
        author = ("-c", "user.name=measured_pairs", "-c", "user.email=nobody@example.org")

        def git(*words: str, given: str = "") -> str:
            command = ("git", "-C", str(ROOT), *author, *words)
            done = subprocess.run(
                command, input=given, env=variables, capture_output=True, text=True, check=True
            )
            return done.stdout.strip()

        git("read-tree", "HEAD")
        blob = git("hash-object", "-w", "--stdin", given=slow)
        git("update-index", "--cacheinfo", f"100644,{blob},{LOADER}")
        return git("commit-tree", git("write-tree"), "-p", "HEAD", "-m", f"Wait {share:.0%} longer")


def measured(sides: Sides, path: Path) -> tuple[Run, Run]:
    """Measure what is left of both sides, and return the runs of baseline and candidate."""
    if not (path.exists() and open_run(path).manifest.finished):
        baseline = slower_commit(sides.slowdown) if sides.slowdown else "HEAD"
        command = ["run", "--against", baseline, *sides.options(), "--output", str(path)]
        subprocess.run([sys.executable, "-m", "skymark", *command, "--resume"], check=True)
    return open_run(baseline_path(path)), open_run(path)


@dataclass(frozen=True)
class Pairs:
    """One cell on both sides."""

    before: Record
    after: Record
    rates_before: np.ndarray
    """Rates of batches, ``[rounds, batches]``."""
    rates_after: np.ndarray

    @classmethod
    def of(cls, runs: tuple[Run, Run]) -> Iterator[Pairs]:
        """Yield the cells that ended well on both sides."""
        for before, after in zip(*(run.records for run in runs), strict=True):
            if before.status is after.status is Status.OK:
                rates = (rates_of_batches(run.directory, before.cell.id) for run in runs)
                yield cls(before, after, *rates)

    def values(self, metric: Metric) -> np.ndarray:
        """Return the metric of candidate and baseline, ``[2, pairs]``."""
        return np.array(paired_values(self.after.rounds, self.before.rounds, metric.name))

    def drawn(self, chance: np.random.Generator, practical: float) -> Difference:
        """Return what ten of the pairs say, not corrected yet."""
        values = self.values(METRIC)
        chosen = values[:, chance.choice(values.shape[1], PAIRS, replace=False)]
        return paired_difference(*chosen.tolist(), METRIC, practical)

    def in_sequence(
        self, judge: Callable[[np.ndarray, np.ndarray], bool], chance: np.random.Generator
    ) -> bool:
        """Compare ten rounds of the baseline in a row with the ten of the candidate after them."""
        begin = chance.integers(len(self.rates_before) - 2 * PAIRS + 1)
        middle, end = begin + PAIRS, begin + 2 * PAIRS
        return judge(self.rates_before[begin:middle], self.rates_after[middle:end])


def rates_of_batches(directory: Path, cell_id: str) -> np.ndarray:
    """Return the rates of a run's batches of the steady stream, ``[rounds, batches]``."""
    table = pq.read_table(directory / "samples" / f"{cell_id}.parquet").to_pydict()
    rounds = np.asarray(table["round"])
    rates = 1e9 / np.maximum(np.asarray(table["wait_ns"], dtype=float), 1)
    of_stream = np.asarray(table["stream"], dtype=bool)
    each = [rates[of_stream & (rounds == number)] for number in np.unique(rounds)]
    return np.stack([one[: min(map(len, each))] for one in each])


Judge = Callable[[list[Pairs], np.random.Generator], list[bool]]
"""Whether each cell of a run, drawn by chance, is said to differ."""


def judged(sides: Sides, cells: list[Pairs]) -> list[str]:
    """Return the row of a kind: cells, pairs, and the share that each way says to differ."""
    ways: tuple[Judge, ...] = (
        lambda cells, chance: in_pairs(cells, chance, sides.practical),
        lambda cells, chance: [one.in_sequence(by_medians, chance) for one in cells],
        lambda cells, chance: [one.in_sequence(by_batches, chance) for one in cells],
    )
    row = [str(len(cells)), str(sides.pairs)]
    for way in ways:
        chance = np.random.default_rng(SEED)
        said = [way(cells, chance) for _ in range(COMPARISONS // len(cells))]
        row.append(f"{np.mean(said):.1%}".replace("%", " %"))
    return row


def in_pairs(cells: list[Pairs], chance: np.random.Generator, practical: float) -> list[bool]:
    """Compare ten pairs of each cell as `skymark run --against` does."""
    found = corrected([one.drawn(chance, practical) for one in cells])
    return [difference.is_real for difference in found]


def scatter(cells: list[Pairs]) -> str:
    """Return, for people, how far apart the sides of each cell are and its pairs lie."""
    lines, spreads = [], []
    for pairs in cells:
        ratios = np.subtract(*np.log(pairs.values(METRIC)))
        spreads.append(stdev(ratios))
        name = f"{pairs.after.cell.label} {pairs.after.cell.adapter}"
        lines.append(f"  {name}: {np.mean(ratios):+.1%}, each pair ± {spreads[-1]:.1%}")
    middle = median(spreads)
    return "\n".join([*lines, f"  median of the pairs' standard deviations: {middle:.1%}"])


def main() -> None:
    """Measure or read each kind of sides, and renew the table of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--runs", type=Path, help="where what is measured stays")
    kinds = range(len(EACH))
    parser.add_argument(
        "--sides", type=int, nargs="+", choices=kinds, default=kinds, help="kinds to measure"
    )
    asked = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as name:
        for number in asked.sides:
            sides = EACH[number]
            cells = list(Pairs.of(measured(sides, (asked.runs or Path(name)) / str(number))))
            print(f"{sides.name}:\n{scatter(cells)}", flush=True)
            rows[sides.name] = judged(sides, cells)
    columns = ("both sides", "cells", "pairs of each", "in pairs", "median moved 5 %",
               "t-test over batches")  # fmt: skip
    renew(asked.page, "measured pairs", columns, [sides.name for sides in EACH], rows)


if __name__ == "__main__":
    main()
