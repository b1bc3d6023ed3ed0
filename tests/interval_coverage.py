"""Make the tables of evidence.md: how often 95 % intervals hold the truth, and their width.

    python -m tests.interval_coverage docs/reference/evidence.md

Rounds are drawn from distributions whose mean is known, on the logarithmic scale on which rates
are taken to be normally distributed, and given to the interval that a run has: cells of one run
borrow from each other.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from skymark.model.metric import Figure
from skymark.model.sizes import percent
from skymark.statistics.borrowing import lent_variances
from skymark.statistics.interval import estimate
from skymark.statistics.stability import dependent_rounds
from tests.faults.table import renew
from tests.timed_bench import ALIKE, UNLIKE, Bench, spent_where_it_decides

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "evidence.md"
ROUNDS = (3, 5, 10, 20, 40)
ALONE = (3, 5)
"""Rounds of the columns of cells that borrow nothing."""
CELLS = 24
"""Cells of a run."""
BATCHES = 100
SEED = 2039
"""None of those that the borrowed weight was chosen on."""
BENCHES = range(5000, 5100)

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
"""Returns the logarithm of rates, ``[trials, rounds]``, whose mean is 0."""


@dataclass(frozen=True)
class Case:
    """A distribution of rounds, and the least share of intervals that promises to hold."""

    name: str
    draw: Draw
    promised: float | None
    """None where nothing is promised."""


def normal(chance: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Rounds of which each is disturbed by many small things."""
    return chance.normal(0, 0.05, shape)


def skewed(chance: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Rounds that are now and then slower: of gamma distribution with skewness 1."""
    return 0.05 * (2 - chance.gamma(4, 0.5, shape))


def very_skewed(chance: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Rounds of which a few are much slower: of exponential distribution, with skewness 2."""
    return 0.05 * (1 - chance.exponential(1, shape))


def two_speeds(chance: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Rounds of two speeds 10 % apart, each as often, with a little noise."""
    return 0.05 * chance.choice([-1, 1], shape) + chance.normal(0, 0.02, shape)


def rare_speed(chance: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Rounds of which one in five is 20 % slower."""
    slow = chance.random(shape) < 0.2
    return 0.2 * (0.2 - slow) + chance.normal(0, 0.02, shape)


def dependent_batches(chance: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Means of batches of which each is like the one before (correlation 0.9)."""
    return np.stack(
        [correlated(chance, (shape[0], BATCHES), 0.9).mean(1) for _ in range(shape[1])], axis=1
    )


def like_the_round_before(correlation: float) -> Draw:
    """Return rounds of which each is like the one before."""
    return lambda chance, shape: correlated(chance, shape, correlation)


def correlated(
    chance: np.random.Generator, shape: tuple[int, int], correlation: float
) -> np.ndarray:
    """Return stationary autoregressive series of the first order, one per row."""
    noise = chance.normal(0, 0.05, shape)
    noise[:, 1:] *= np.sqrt(1 - correlation**2)
    for place in range(1, shape[1]):
        noise[:, place] += correlation * noise[:, place - 1]
    return noise


CASES = (
    Case("normal", normal, 0.93),
    Case("batches autocorrelated (0.9), rounds not", dependent_batches, 0.93),
    Case("skewed (gamma, skewness 1)", skewed, 0.93),
    Case("very skewed (exponential, skewness 2)", very_skewed, 0.9),
    Case("two speeds, half each", two_speeds, 0.93),
    Case("two speeds, one in five slow", rare_speed, 0.9),
    Case("rounds autocorrelated (0.2)", like_the_round_before(0.2), 0.9),
    Case("rounds autocorrelated (0.5)", like_the_round_before(0.5), None),
)


@cache
def measured_spreads() -> np.ndarray:
    """Return the measured spreads of evidence.md, relative to their root mean square."""
    table = PAGE.read_text().split("<!-- round spread: begin -->")[1].split("<!--")[0]
    spreads = np.array([float(share) for share in re.findall(r"([\d.]+) %", table)])
    return np.asarray(spreads / np.sqrt(np.mean(spreads**2)))


class Estimate(NamedTuple):
    """Figure of a cell whose true rate is 1, and the spread of the cell."""

    figure: Figure
    spread: float
    """Relative to the root mean square of all cells."""

    def holds(self) -> bool:
        """Return whether the interval holds the truth."""
        low, high = self.figure.low, self.figure.high
        return low is not None and high is not None and low <= 1 <= high


def drawn_runs(
    case: Case, rounds: int, cells: int
) -> Iterator[tuple[dict[str, list[float]], np.ndarray]]:
    """Yield runs of `CELLS` cells until there are so many cells: rates by cell, and spreads.

    Each cell has a spread of its own, out of the measured ones.
    """
    chance = np.random.default_rng([SEED, CASES.index(case), rounds])
    runs = -(-cells // CELLS)
    noise = case.draw(chance, (runs * CELLS, rounds)).reshape(runs, CELLS, rounds)
    spreads = chance.choice(measured_spreads(), (runs, CELLS))
    for run, its in zip(np.exp(noise * spreads[..., None]).tolist(), spreads, strict=True):
        yield {str(cell): rates for cell, rates in enumerate(run)}, its


def named(case: Case, rounds: int, cells: int) -> float:
    """Return the share of runs with the warning that rounds depend on the round before."""
    return fmean(
        dependent_rounds(rates.values()) is not None for rates, _ in drawn_runs(case, rounds, cells)
    )


def estimates(case: Case, rounds: int, cells: int, *, alone: bool = False) -> Iterator[Estimate]:
    """Yield the estimates of the cells of `drawn_runs`, which borrow nothing if `alone`."""
    for rates, spreads in drawn_runs(case, rounds, cells):
        lent = {} if alone else lent_variances(rates)
        for (cell, its), spread in zip(rates.items(), spreads, strict=True):
            yield Estimate(estimate(its, borrowed=lent.get(cell)), spread)


def coverage(
    case: Case, rounds: int, cells: int, *, alone: bool = False, noisiest: bool = False
) -> float:
    """Return the share of intervals that hold the true rate; see `estimates`.

    Args:
        noisiest: count the noisiest quarter of cells only.
    """
    least = np.quantile(measured_spreads(), 0.75) if noisiest else 0.0
    drawn = estimates(case, rounds, cells, alone=alone)
    return fmean(one.holds() for one in drawn if one.spread >= least)


def widths(rounds: int, cells: int, *, alone: bool) -> list[str]:
    """Return the median and the ninth decile of half widths of normal cells, in per cent."""
    drawn = estimates(CASES[0], rounds, cells, alone=alone)
    halves = [one.figure.relative_half_width or 0.0 for one in drawn]
    return [in_per_cent(float(np.quantile(halves, share))) for share in (0.5, 0.9)]


def timed_coverage(benches: Iterable[Bench]) -> tuple[float, float]:
    """Return the share of intervals that hold the true rate after a run's time, and mean rounds."""
    spent = [spent_where_it_decides(bench) for bench in benches]
    return (
        fmean(held for bench in spent for held in bench.held()),
        fmean(len(values) for bench in spent for values in bench.values.values()),
    )


def of_equal_spread(bench: Bench, spread: float) -> Bench:
    """Return the bench with this spread in each cell."""
    bench.spread = dict.fromkeys(bench.spread, spread)
    return bench


def main() -> None:
    """Simulate every case and renew the tables in the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--cells", type=int, default=20_000)
    asked = parser.parse_args()
    _renew_coverage(asked.page, asked.cells)
    _renew_dependent(asked.page, asked.cells)
    _renew_widths(asked.page, asked.cells)
    _renew_timed(asked.page)


def _renew_coverage(page: Path, cells: int) -> None:
    columns = [f"{rounds} rounds" for rounds in ROUNDS] + [f"{rounds}, alone" for rounds in ALONE]
    rows = {
        case.name: [
            *(shown(case, rounds, cells) for rounds in ROUNDS),
            *(in_per_cent(coverage(case, rounds, cells, alone=True)) for rounds in ALONE),
        ]
        for case in CASES
    }
    noisiest = f"{CASES[0].name}, the noisiest quarter of cells"
    rows[noisiest] = [
        in_per_cent(coverage(CASES[0], rounds, cells, alone=alone, noisiest=True))
        for alone, each in ((False, ROUNDS), (True, ALONE))
        for rounds in each
    ]
    renew(page, "interval coverage", ("rounds of a cell", *columns), list(rows), rows)


def _renew_dependent(page: Path, cells: int) -> None:
    rows = {
        case.name: [in_per_cent(named(case, rounds, cells)) for rounds in ROUNDS[1:4]]
        for case in (CASES[0], CASES[3], *CASES[-2:])
    }
    columns = [f"{rounds} rounds" for rounds in ROUNDS[1:4]]
    renew(page, "dependent rounds", ("rounds of a cell", *columns), list(rows), rows)


def _renew_widths(page: Path, cells: int) -> None:
    rows = {
        f"{rounds} rounds": [
            text for alone in (True, False) for text in widths(rounds, cells, alone=alone)
        ]
        for rounds in ROUNDS[:3]
    }
    columns = ["alone: median", "nine in ten below", "borrowing: median", "nine in ten below"]
    renew(page, "interval widths", ("half width, ±", *columns), list(rows), rows)


def _renew_timed(page: Path) -> None:
    one = "one scenario, 14 loaders, 10 min"
    benches: dict[str, Iterator[Bench]] = {
        one: (Bench(ALIKE, 600.0, seed) for seed in BENCHES),
        "the same, 20 min, each cell with a spread of 8 %": (
            of_equal_spread(Bench(ALIKE, 1200.0, seed), 0.08) for seed in BENCHES
        ),
        "three scenarios, 8 loaders each, 20 min": (
            Bench(UNLIKE, 1200.0, seed) for seed in BENCHES
        ),
    }
    rows = {}
    for name, its in benches.items():
        held, rounds = timed_coverage(its)
        rows[name] = [in_per_cent(held), f"{rounds:.1f}"]
    columns = ["intervals that hold", "rounds of a cell"]
    renew(page, "timed coverage", ("`--time`", *columns), list(rows), rows)


def in_per_cent(share: float) -> str:
    """Return a share in per cent."""
    return percent(share, 1)


def shown(case: Case, rounds: int, cells: int) -> str:
    """Return a coverage in per cent, in brackets if it is not promised or not kept."""
    share = coverage(case, rounds, cells)
    is_kept = case.promised is not None and share >= case.promised
    return in_per_cent(share) if is_kept else f"({in_per_cent(share)})"


if __name__ == "__main__":
    main()
