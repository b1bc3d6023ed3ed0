"""Verdicts are corrected for their number."""

from __future__ import annotations

import random

import pytest

from skymark.model.metric import Figure, Metric
from skymark.statistics.difference import (
    Difference,
    Verdict,
    confidence_of_next,
    corrected,
    difference,
    holm,
)

RATE = Metric(name="rate", heading="rate", better="higher", compared=True)
COUNT = RATE.model_copy(update={"name": "count", "scale": "exact"})


def found(p_value: float | None, verdict: Verdict = Verdict.BETTER) -> Difference:
    return Difference(ratio=Figure(value=1.2), verdict=verdict, p_value=p_value)


def test_holm_adjusts_as_in_his_example() -> None:
    """Worked by hand: 4 x 0.005, 3 x 0.01, 2 x 0.03, and the last not below that."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_an_adjusted_value_is_a_probability() -> None:
    assert holm([0.5, 0.9, 0.4]) == [1.0, 1.0, 1.0]
    assert holm([]) == []


def test_one_comparison_alone_is_not_corrected() -> None:
    (only,) = corrected([found(0.04)])
    assert (only.verdict, only.corrected_p_value) == (Verdict.BETTER, 0.04)


def test_what_many_comparisons_give_by_chance_is_inconclusive() -> None:
    first, *others = corrected([found(0.0001), *[found(0.04, Verdict.WORSE)] * 9])
    assert first.verdict is Verdict.BETTER
    assert {one.verdict for one in others} == {Verdict.INCONCLUSIVE}


def test_no_difference_and_what_does_not_vary_keep_their_verdicts() -> None:
    exact = difference([7.0], [8.0], COUNT)
    same = found(0.9, Verdict.NO_DIFFERENCE)
    first, second = corrected([exact, same])
    assert first == exact
    assert (second.verdict, second.corrected_p_value) == (Verdict.NO_DIFFERENCE, 0.9)


def test_the_next_to_be_shown_is_tested_as_strictly_as_holm_does() -> None:
    assert confidence_of_next([]) == pytest.approx(0.95)
    shown, open_question = found(0.001), found(0.2, Verdict.INCONCLUSIVE)
    assert confidence_of_next([shown, *[open_question] * 5]) == pytest.approx(0.99)


def test_equal_runs_of_many_cells_rarely_have_any_false_verdict() -> None:
    """Of 200 comparisons of 40 equal cells 5 % may have a false one; uncorrected nearly all do."""
    chance = random.Random(11)
    uncorrected = wrong = 0
    for _ in range(200):
        cells = [
            difference(*([chance.lognormvariate(3, 0.2) for _ in range(4)] for _ in "ab"), RATE)
            for _ in range(40)
        ]
        uncorrected += any(one.is_real for one in cells)
        wrong += any(one.is_real for one in corrected(cells))
    assert uncorrected > 120
    assert wrong <= 18
