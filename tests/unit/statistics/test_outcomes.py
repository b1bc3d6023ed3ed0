"""Figures over elements: their intervals, and paired comparisons that are right as promised."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from skymark.model.metric import Figure, Metric
from skymark.statistics.difference import Verdict, corrected
from skymark.statistics.outcomes import (
    apart,
    difference_in_outcomes,
    interval_of,
    mcnemar_p_value,
)

ACCURACY = Metric(name="acc1", heading="acc1", better="higher", scale="exact", outcome="correct")


@pytest.mark.parametrize(("right", "count"), [(0, 10), (0, 24), (3, 10), (516, 1200), (1200, 1200)])
def test_the_interval_of_a_share_is_wilson_s(right, count):
    found = interval_of(right / count, np.arange(count) < right)
    known = binomtest(right, count).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((known.low, known.high), abs=1e-12)
    assert (found.low == 0) == (right == 0)
    assert (found.high == 1) == (right == count)


def test_the_interval_of_other_outcomes_holds_the_figure_as_often_as_promised():
    random = np.random.default_rng(1)
    held = 0
    for _ in range(2000):
        outcomes = random.gamma(1.0, size=200)
        figure = interval_of(float(outcomes.mean()), outcomes)
        held += figure.low <= 1.0 <= figure.high
    assert held / 2000 == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize(("won", "lost"), [(0, 0), (1, 0), (5, 5), (3, 12), (40, 61), (900, 1000)])
def test_mcnemar_s_p_value_is_the_binomial_one_less_half_of_what_was_seen(won, lost):
    if won + lost == 0:
        assert mcnemar_p_value(won, lost) == 1.0
        return
    exact = binomtest(won, won + lost).pvalue
    seen = binom.pmf(won, won + lost, 0.5)
    assert mcnemar_p_value(won, lost) == pytest.approx(exact - seen, rel=1e-6)
    assert mcnemar_p_value(won, lost) == pytest.approx(mcnemar_p_value(lost, won))


def swapped(random, one, other):
    """Return both sides with outcomes swapped at random element by element."""
    chosen = random.random(len(one)) < 0.5
    return np.where(chosen, one, other), np.where(chosen, other, one)


OUTCOMES = {
    "shares": lambda random: (random.random(1200) < 0.6, random.random(1200) < 0.6),
    "means": lambda random: (
        random.binomial(5, 0.4, 1200) / 5,
        random.binomial(5, 0.4, 1200) / 5,
    ),
}


@pytest.mark.parametrize("kind", OUTCOMES)
def test_of_equal_models_few_are_better_in_any_cell_after_correction(kind):
    """Five cells per comparison; ``better`` in at most 1 % of verdicts."""
    random = np.random.default_rng(5)
    cells = [[one.astype(float) for one in OUTCOMES[kind](random)] for _ in range(5)]
    wrong = total = 0
    for _ in range(400):
        found = corrected(
            [
                difference_in_outcomes(*swapped(random, *cell), ACCURACY, practical=0.0)
                for cell in cells
            ]
        )
        wrong += sum(one.verdict is Verdict.BETTER for one in found)
        total += len(found)
    assert wrong / total <= 0.01


def test_one_image_of_1200_is_no_difference_that_is_shown():
    before = (np.arange(1200) < 516).astype(float)
    after = before.copy()
    after[600] = 1.0
    for practical in (0.0, 0.02):
        verdict = difference_in_outcomes(after, before, ACCURACY, practical).verdict
        assert verdict in {Verdict.INCONCLUSIVE, Verdict.NO_DIFFERENCE}
    assert difference_in_outcomes(before, before, ACCURACY).verdict is Verdict.NO_DIFFERENCE


def test_a_change_that_is_shown_but_within_the_margin_is_not_better():
    before = np.zeros(10_000)
    before[:5000] = 1
    after = before.copy()
    after[5000:5060] = 1
    assert difference_in_outcomes(after, before, ACCURACY, 0.0).verdict is Verdict.BETTER
    assert difference_in_outcomes(after, before, ACCURACY, 0.02).verdict is not Verdict.BETTER


@pytest.mark.parametrize("sides", [(3, 4), (1, 1), (0, 0)])
def test_elements_without_partners_are_no_pairs(sides):
    one, other = (np.ones(count) for count in sides)
    with pytest.raises(ValueError, match="no pairs"):
        difference_in_outcomes(one, other, ACCURACY)


def test_figures_without_outcomes_are_compared_by_their_intervals():
    low, high = Figure(value=0.4, low=0.38, high=0.42), Figure(value=0.5, low=0.48, high=0.52)
    assert apart(high, low, ACCURACY, 0.02).verdict is Verdict.BETTER
    assert apart(low, high, ACCURACY, 0.02).verdict is Verdict.WORSE
    near = low.model_copy(update={"value": 0.41})
    assert apart(near, low, ACCURACY, 0.02).verdict is Verdict.INCONCLUSIVE
    bare = Figure(value=0.9)
    assert apart(bare, low, ACCURACY, 0.02).verdict is Verdict.INCONCLUSIVE
    assert apart(bare, bare, ACCURACY, 0.02).verdict is Verdict.NO_DIFFERENCE
