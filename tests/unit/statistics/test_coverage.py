"""Intervals hold the truth as often as they promise; the table in evidence.md is larger."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interval_coverage import (
    BENCHES,
    CASES,
    CELLS,
    Case,
    coverage,
    named,
    timed_coverage,
    widths,
)
from tests.timed_bench import ALIKE, Bench

TRIALS = 100 * CELLS
"""The table has 20,000 of each."""
CHANCE = 0.015
"""About three standard errors of a share of 90 to 95 % in so many cells."""
PROMISED = [
    pytest.param(case, rounds, id=f"{case.draw.__name__}-{rounds}")
    for case in CASES
    if case.promised is not None
    for rounds in (3, 5, 10)
]


@pytest.mark.parametrize(("case", "rounds"), PROMISED)
def test_an_interval_holds_the_truth_as_often_as_it_promises(case: Case, rounds: int) -> None:
    assert case.promised is not None
    assert coverage(case, rounds, TRIALS) >= case.promised - CHANCE


def test_a_usual_cell_is_not_told_an_interval_that_is_far_too_wide() -> None:
    assert max(coverage(case, 3, TRIALS) for case in CASES[:3]) <= 0.98


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_borrowing_keeps_what_an_interval_alone_holds(case: Case) -> None:
    for rounds in (3, 5, 10):
        alone = coverage(case, rounds, TRIALS, alone=True)
        assert coverage(case, rounds, TRIALS) >= min(alone - CHANCE, case.promised or 1.0)


def test_borrowing_makes_intervals_of_three_rounds_much_narrower() -> None:
    (_, alone), (_, borrowing) = (
        [float(text.removesuffix(" %")) for text in widths(3, TRIALS, alone=alone)]
        for alone in (True, False)
    )
    assert borrowing < alone / 1.5


def test_the_rule_of_a_limited_time_keeps_what_intervals_promise() -> None:
    held, _ = timed_coverage([Bench(ALIKE, 600.0, seed) for seed in BENCHES[:40]])
    assert held >= 0.93


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("rounds", [10, 20])
def test_rounds_that_depend_on_the_round_before_are_named_and_no_others(
    case: Case, rounds: int
) -> None:
    share = named(case, rounds, TRIALS)
    if case.promised is None:
        assert share >= 0.8
    elif "rounds autocorrelated" not in case.name:
        assert share <= 0.02


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_mean_of_what_is_drawn_is_the_truth(case: Case) -> None:
    drawn = case.draw(np.random.default_rng(1), (50_000, 3))
    assert drawn.shape == (50_000, 3)
    assert drawn.mean() == pytest.approx(0, abs=0.0015)
    assert drawn.std() < 0.12


def test_what_is_not_promised_does_not_hold() -> None:
    """Else the brackets of the table would be wrong, or the simulation would see nothing."""
    (case,) = (case for case in CASES if case.promised is None)
    assert coverage(case, 10, TRIALS) < 0.85
