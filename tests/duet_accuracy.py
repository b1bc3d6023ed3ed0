"""Make the table of docs/accuracy.md on comparisons: three ways of judging two sides.

    python -m tests.duet_accuracy docs/accuracy.md
    python -m tests.duet_accuracy --comparisons 500 --real --scenarios TAB-1 --adapters numpy

The table is simulated. With ``--real``, which options of ``skymark run`` follow, nothing is: both
sides are the code as it is (HEAD against HEAD), so each verdict is false; shares are printed. It
wants a machine on which nothing else runs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from skymark.execute.duet_session import baseline_path
from skymark.model.metric import Metric
from skymark.run.reader import open_run
from skymark.statistics.difference import difference, paired_difference
from skymark.statistics.pairing import paired_values
from tests.faults.table import renew
from tests.interval_coverage import correlated

PAIRS, BATCHES, SEED = 10, 200, 20
MOVED = 0.05
METRIC = Metric(name="samples_per_s", heading="samples/s", better="higher")
"""The loading suite's primary one."""

Way = Callable[[np.ndarray, np.ndarray], bool]
"""Whether two sides are said to differ, by the rates of batches ``[rounds, batches]`` of each."""


@dataclass(frozen=True)
class Noise:
    """Standard deviations on the logarithmic scale, about those that runs have on such machines."""

    name: str
    drift: float
    """Of the machine's step from one round to the next."""
    process: float
    """Of the luck that all batches of a process share."""
    batch: float = 0.1
    """Of a batch; each is like the one before (correlation 0.5)."""


NOISES = (
    Noise("a quiet machine", drift=0.0, process=0.01),
    Noise("processes of varying luck", drift=0.0, process=0.04),
    Noise("a machine that drifts", drift=0.01, process=0.01),
    Noise("a shared virtual machine", drift=0.03, process=0.02),
)


def in_pairs(before: np.ndarray, after: np.ndarray) -> bool:
    """Judge by the ratios of pairs, as `skymark run --against` does."""
    sides = [np.exp(np.log(side).mean(1)).tolist() for side in (after, before)]
    return paired_difference(*sides, METRIC).is_real


def by_medians(before: np.ndarray, after: np.ndarray) -> bool:
    """Judge by whether the median of the rounds moved by 5 %."""
    old, new = (np.median(np.median(side, axis=1)) for side in (before, after))
    return bool(abs(new / old - 1) >= MOVED)


def by_batches(before: np.ndarray, after: np.ndarray) -> bool:
    """Judge by a t-test over the batches of one repetition, as if they were independent."""
    found = difference(after[0].tolist(), before[0].tolist(), METRIC, practical=0.0)
    return found.is_real


WAYS: dict[str, tuple[Way, bool]] = {
    "in pairs": (in_pairs, True),
    "median moved 5 %": (by_medians, False),
    "t-test over batches": (by_batches, False),
}
"""By name, with whether the rounds of the two sides take turns."""


def drawn(
    noise: Noise, chance: np.random.Generator, slowdown: float, *, in_turn: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rates of both sides' batches, measured in turn or one side after the other."""
    rounds = 2 * PAIRS
    machine = np.cumsum(chance.normal(0, noise.drift, rounds))
    level = machine + chance.normal(0, noise.process, rounds)
    batches = correlated(chance, (rounds, BATCHES), 0.5) * (noise.batch / 0.05)
    rates = np.exp(level[:, None] + batches)
    places = np.arange(rounds)
    # Baseline first in every other pair.
    is_after = (places % 2 == 1) ^ (places // 2 % 2 == 1) if in_turn else places >= PAIRS
    return rates[~is_after], rates[is_after] * (1 - slowdown)


def said(noise: Noise, way: str, slowdown: float, trials: int) -> float:
    """Return the share of simulated comparisons that are said to differ."""
    judge, in_turn = WAYS[way]
    chance = np.random.default_rng([SEED, NOISES.index(noise), list(WAYS).index(way)])
    return sum(judge(*drawn(noise, chance, slowdown, in_turn=in_turn)) for _ in range(trials)) / (
        trials
    )


def real(comparisons: int, options: Sequence[str]) -> dict[str, list[bool]]:
    """Return what each way says of cells that are measured with equal code on both sides."""
    found: dict[str, list[bool]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        while len(found["in pairs"]) < comparisons:
            path = Path(folder) / str(len(found["in pairs"]))
            command = ["run", "--against", "HEAD", "--rounds", str(PAIRS), "--output", str(path)]
            subprocess.run([sys.executable, "-m", "skymark", *command, *options], check=True)
            runs = [open_run(where) for where in (baseline_path(path), path)]
            for before, after in zip(*(run.records for run in runs), strict=True):
                if METRIC.name not in before.metrics or METRIC.name not in after.metrics:
                    continue
                sides = paired_values(after.rounds, before.rounds, METRIC.name)
                found["in pairs"].append(paired_difference(*sides, METRIC).is_real)
                waits = [rates_of_batches(run.directory, before.cell.id) for run in runs]
                for way in ("median moved 5 %", "t-test over batches"):
                    found[way].append(WAYS[way][0](*waits))
    return found


def rates_of_batches(directory: Path, cell_id: str) -> np.ndarray:
    """Return the rates of a run's batches of the steady stream, ``[rounds, batches]``."""
    table = pq.read_table(directory / "samples" / f"{cell_id}.parquet").to_pydict()
    rounds = np.asarray(table["round"])
    rates = 1e9 / np.maximum(np.asarray(table["wait_ns"], dtype=float), 1)
    of_stream = np.asarray(table["stream"], dtype=bool)
    each = [rates[of_stream & (rounds == number)] for number in np.unique(rounds)]
    return np.stack([one[: min(map(len, each))] for one in each])


def main() -> None:
    """Simulate every noise and renew the table of a page, or measure real cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, nargs="?")
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--comparisons", type=int, default=500)
    parser.add_argument("--real", nargs=argparse.REMAINDER, metavar="OPTION")
    asked = parser.parse_args()
    if asked.real is not None:
        for way, verdicts in real(asked.comparisons, asked.real).items():
            print(f"{way}: {sum(verdicts)} of {len(verdicts)} equal pairs are said to differ")
        return
    columns = ("simulated", *(f"{way}: {what}" for way in WAYS for what in ("false", "found")))
    rows = {
        noise.name: [
            f"{said(noise, way, slowdown, asked.trials):.1%}".replace("%", " %")
            for way in WAYS
            for slowdown in (0.0, MOVED)
        ]
        for noise in NOISES
    }
    renew(asked.page, "comparisons", columns, [noise.name for noise in NOISES], rows)


if __name__ == "__main__":
    main()
