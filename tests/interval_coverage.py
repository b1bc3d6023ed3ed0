"""Make the table of docs/accuracy.md: how often 95 % intervals hold the truth.

    python -m tests.interval_coverage docs/accuracy.md

Rounds are drawn from distributions whose mean is known, on the logarithmic scale on which rates
are taken to be normally distributed, and given to the interval that a run has.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skymark.statistics.interval import estimate
from tests.faults.table import renew

ROUNDS = (3, 5, 10, 20, 40)
BATCHES = 100
SEED = 20

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
"""Returns the logarithm of rates, ``[trials, rounds]``, whose mean is 0."""


@dataclass(frozen=True)
class Case:
    """A distribution of rounds, and from how many on the interval promises to hold."""

    name: str
    draw: Draw
    promised_from: int | None
    """None where rounds are not independent, which the interval takes them to be."""

    def promises(self, rounds: int) -> bool:
        """Whether an interval of so many rounds is to hold the truth in 95 % of cases."""
        return self.promised_from is not None and rounds >= self.promised_from


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


def dependent_rounds(correlation: float) -> Draw:
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
    Case("normal", normal, 3),
    Case("batches autocorrelated (0.9), rounds not", dependent_batches, 3),
    Case("skewed (gamma, skewness 1)", skewed, 10),
    Case("very skewed (exponential, skewness 2)", very_skewed, 40),
    Case("two speeds, half each", two_speeds, 10),
    Case("two speeds, one in five slow", rare_speed, 40),
    Case("rounds autocorrelated (0.2)", dependent_rounds(0.2), None),
    Case("rounds autocorrelated (0.5)", dependent_rounds(0.5), None),
)


def coverage(case: Case, rounds: int, trials: int) -> float:
    """Return the share of intervals of so many rounds that hold the true mean."""
    chance = np.random.default_rng([SEED, CASES.index(case), rounds])
    held = 0
    for rates in np.exp(case.draw(chance, (trials, rounds))).tolist():
        found = estimate(rates)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 1 <= found.high
    return held / trials


def main() -> None:
    """Simulate every case and renew the table in the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--trials", type=int, default=20_000)
    asked = parser.parse_args()
    columns = ("rounds of a cell", *(f"{rounds} rounds" for rounds in ROUNDS))
    rows = {case.name: [shown(case, rounds, asked.trials) for rounds in ROUNDS] for case in CASES}
    renew(asked.page, "interval coverage", columns, [case.name for case in CASES], rows)


def shown(case: Case, rounds: int, trials: int) -> str:
    """Return a coverage in per cent, in brackets where the interval does not promise it."""
    text = f"{coverage(case, rounds, trials):.1%}".replace("%", " %")
    return text if case.promises(rounds) else f"({text})"


if __name__ == "__main__":
    main()
