"""Make the table of docs/reference/evidence.md on comparisons: three ways of judging two sides.

    python -m tests.duet_accuracy docs/reference/evidence.md

It is simulated; `tests.measured_pairs` has pairs of real cells.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skymark.model.metric import Metric
from skymark.model.sizes import percent
from skymark.statistics.difference import (
    PAIRED_PRACTICAL,
    REAL,
    difference,
    paired_contrast,
    verdict_of,
)
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
    return verdict_of(paired_contrast(*sides, METRIC, PAIRED_PRACTICAL), METRIC) in REAL


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


def main() -> None:
    """Simulate every noise and renew the table of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--trials", type=int, default=500)
    asked = parser.parse_args()
    columns = ("simulated", *(f"{way}: {what}" for way in WAYS for what in ("false", "found")))
    rows = {
        noise.name: [
            percent(said(noise, way, slowdown, asked.trials), 1)
            for way in WAYS
            for slowdown in (0.0, MOVED)
        ]
        for noise in NOISES
    }
    renew(asked.page, "comparisons", columns, [noise.name for noise in NOISES], rows)


if __name__ == "__main__":
    main()
