"""Make the table of evidence.md of pairs of real rounds in slices, equal ones and others.

    python -m tests.measured_pairs docs/reference/evidence.md --runs DIRECTORY

measures for three hours and wants a machine on which nothing else runs; with ``--busy`` another
program takes a core in half of every 20 s. What was measured stays in the directory, and is read
where it lies already. From the recorded process pairs of each loader, as many as fit into five
minutes are drawn again and again, and judged as `skymark run --against` does. The slower side is a
commit that no branch has: HEAD, where each transform takes a share more CPU time in its worker.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from threading import Event, Thread

import numpy as np
import pyarrow.parquet as pq

import skymark
from skymark.execute.measurer import SilentObserver
from skymark.execute.pairs import baseline_path
from skymark.model.plan import Plan
from skymark.model.record import Cell, Round, Status
from skymark.model.sizes import percent
from skymark.rundir.reader import open_run
from skymark.statistics.difference import PAIRED_PRACTICAL, REAL, paired_contrast, verdict_of
from tests.duet_accuracy import METRIC, SEED
from tests.faults.table import renew

ROOT = Path(__file__).parents[1]
JOB = "src/skymark/suites/loading/adapter.py"
TRANSFORMED = "        return self.scenario.transform(element, epoch)\n"
SLOWED = """\
        import time

        begin = time.thread_time()
        made = self.scenario.transform(element, epoch)
        end = time.thread_time() + {share} * (time.thread_time() - begin)
        while time.thread_time() < end:
            pass
        return made
"""
LOADERS = ("pytorch", "grain", "tfdata", "webdataset")
SCENARIO = "AU-1:small"
"""A scenario whose transforms all of these loaders call in Python."""
EFFECTS = (0.0, 0.02, 0.05)
"""Shares of a transform's CPU time that the baseline takes more."""
MARGINS = (PAIRED_PRACTICAL, 0.01)
COMPARISON_S = 300.0
DRAWS = 1000
BUSY_S = 10.0


def slower_commit(share: float) -> str:
    """Make a commit that is HEAD with the work, and return its hash, which is always the same."""
    text = (ROOT / JOB).read_text()
    assert text.count(TRANSFORMED) == 1
    slow = text.replace(TRANSFORMED, SLOWED.format(share=share))
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
        git("update-index", "--cacheinfo", f"100644,{blob},{JOB}")
        return git(
            "commit-tree", git("write-tree"), "-p", "HEAD", "-m", f"Work {percent(share)} more"
        )


class PairTimes(SilentObserver):
    """Notes the wall time of each pair, from its first round's beginning to its last one's end."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._open = 0

    def measuring(self, cell: Cell, round: int) -> None:
        """Begin a pair with the first of its rounds."""
        if self._open == 0:
            self._began = time.monotonic()
        self._open += 1

    def measured(self, cell: Cell, round: int, result: Round | None) -> None:
        """End a pair with the last of its rounds."""
        self._open -= 1
        if self._open == 0:
            self.seconds.append(time.monotonic() - self._began)
            print(f"  {cell.adapter}: a pair in {self.seconds[-1]:.0f} s", flush=True)

    def stage(self, text: str) -> None:
        """Print a step."""
        print(f"  {text}", flush=True)


def plan_of(loader: str, pairs: int, seconds: float) -> Plan:
    """Return a plan of pairs whose timed regions take some seconds, both sides together."""
    plan = skymark.plan(skymark.Work(scenarios=[SCENARIO], adapters=[loader], effort="quick"))
    times = {"min_seconds": seconds / 2, "max_seconds": seconds / 2, "min_batches": 1}
    bounds = {
        "min_rounds": pairs,
        "max_rounds": pairs,
        "cell_timeout_s": 20 * seconds + 300,
        "limits": {**plan.effort.limits, **times},
    }
    return plan.model_copy(update={"effort": plan.effort.model_copy(update=bounds)})


@contextmanager
def beside(*, busy: bool) -> Iterator[None]:
    """Take a core for `BUSY_S` in every twice that time, if asked for."""
    over = Event()

    def disturb() -> None:
        while busy and not over.is_set():
            with subprocess.Popen(["stress-ng", "--quiet", "--cpu", "1"]) as program:
                over.wait(BUSY_S)
                program.terminate()
            over.wait(BUSY_S)

    thread = Thread(target=disturb)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@dataclass(frozen=True)
class Recorded:
    """The process pairs of one loader with one effect."""

    log_ratios: np.ndarray
    """Of the candidate's rate to the baseline's, ``[pairs]``."""
    cpu_log_ratios: np.ndarray
    """Of CPU seconds per sample, ``[pairs]``."""
    pair_s: float
    """Mean wall time of a pair, with the start of its processes."""

    @classmethod
    def of(cls, path: Path) -> Recorded:
        """Read both runs of a comparison.

        Raises:
            ValueError: a side did not end well, or its rounds were not in slices.
        """
        (before,), (after,) = (open_run(one).records for one in (baseline_path(path), path))
        if not before.status is after.status is Status.OK:
            raise ValueError(f"{path}: {before.cause or after.cause}")
        if any(one.kind == "not-in-slices" for one in after.warnings):
            raise ValueError(f"{path}: the rounds were not in slices")
        own_s = [max(a.own_s, b.own_s) for a, b in zip(before.rounds, after.rounds, strict=True)]
        noted = seconds_file(path)
        pair_s = [float(line) for line in noted.read_text().split()] if noted.exists() else own_s
        names = METRIC.name, "cpu_s_per_1000_samples"
        rates, work = (np.log(after.values(name)) - np.log(before.values(name)) for name in names)
        return cls(rates, work, fmean(pair_s))

    @property
    def pairs(self) -> int:
        """Pairs that fit into a comparison, of the recorded ones."""
        return max(2, min(len(self.log_ratios), int(COMPARISON_S / self.pair_s)))

    def shown(self, margin: float) -> float:
        """Return the share of drawn comparisons that say that the sides differ."""
        chance, said = np.random.default_rng(SEED), 0
        for _ in range(DRAWS):
            drawn = chance.choice(self.log_ratios, self.pairs, replace=False)
            sides = np.exp(drawn).tolist(), [1.0] * len(drawn)
            said += verdict_of(paired_contrast(*sides, METRIC, margin), METRIC) in REAL
        return said / DRAWS

    def row(self) -> list[str]:
        """Return the row of the table."""
        return [
            f"{len(self.log_ratios)} × {self.pair_s:.0f} s",
            str(self.pairs),
            *(
                f"{percent(np.mean(ratios), 1, signed=True)} ± {percent(stdev(ratios), 1)}"
                for ratios in (self.log_ratios, self.cpu_log_ratios)
            ),
            *(percent(self.shown(margin), 1) for margin in MARGINS),
        ]


def seconds_file(path: Path) -> Path:
    """Return the file with the wall times of a run's pairs, beside its directory."""
    return path.with_name(f"{path.name}-seconds.txt")


def measured(path: Path, loader: str, effect: float, asked: argparse.Namespace) -> Recorded:
    """Measure what is left of a comparison, and read it."""
    if not (path.exists() and open_run(path).manifest.finished):
        times = PairTimes()
        revision = slower_commit(effect) if effect else "HEAD"
        plan = plan_of(loader, asked.pairs, asked.seconds)
        results = skymark.Results(output=path, resume=True)
        with beside(busy=asked.busy):
            skymark.run(plan, results, observer=times, against=revision)
        seconds_file(path).write_text("\n".join(map(str, times.seconds)))
    return Recorded.of(path)


def rates_of_batches(directory: Path, cell_id: str) -> np.ndarray:
    """Return the rates of a run's batches of the steady stream, ``[rounds, batches]``."""
    table = pq.read_table(directory / "samples" / f"{cell_id}.parquet").to_pydict()
    rounds = np.asarray(table["round"])
    rates = 1e9 / np.maximum(np.asarray(table["wait_ns"], dtype=float), 1)
    of_stream = np.asarray(table["stream"], dtype=bool)
    each = [rates[of_stream & (rounds == number)] for number in np.unique(rounds)]
    return np.stack([one[: min(map(len, each))] for one in each])


def name_of(loader: str, effect: float, *, busy: bool) -> str:
    """Return the name of a row."""
    sides = f"{percent(effect)} more work" if effect else "equal"
    return f"{loader}, {sides}{', beside a disturber' if busy else ''}"


def main() -> None:
    """Measure or read the pairs of each loader and effect, and renew the table of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--runs", type=Path, required=True, help="where what is measured stays")
    parser.add_argument("--loaders", nargs="+", choices=LOADERS, default=LOADERS)
    parser.add_argument("--effects", type=float, nargs="+", choices=EFFECTS, default=EFFECTS)
    parser.add_argument("--pairs", type=int, default=10, help="recorded process pairs of each")
    parser.add_argument("--seconds", type=float, default=60, help="timed region of a pair")
    parser.add_argument("--busy", action="store_true", help="beside a program that takes a core")
    asked = parser.parse_args()
    rows: dict[str, list[str]] = {}
    for loader in asked.loaders:
        for effect in asked.effects:
            name = name_of(loader, effect, busy=asked.busy)
            folder = f"{loader}-{effect:g}{'-busy' if asked.busy else ''}"
            print(name, flush=True)
            rows[name] = measured(asked.runs / folder, loader, effect, asked).row()
            print("  " + " | ".join(rows[name]), flush=True)
    columns = (
        *("pairs of rounds in slices", "recorded", "pairs in 5 minutes", "rate, each pair"),
        *("CPU per sample", *(f"shown, margin {percent(margin)}" for margin in MARGINS)),
    )
    order = [
        name_of(*one, busy=busy) for busy in (False, True) for one in product(LOADERS, EFFECTS)
    ]
    renew(asked.page, "pairs in slices", columns, order, rows)


if __name__ == "__main__":
    main()
