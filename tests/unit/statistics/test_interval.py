"""Intervals and verdicts against scipy's, and against what they promise."""

from __future__ import annotations

import math
import random
import subprocess
import sys

import pytest
import scipy

from skymark.model.metric import Metric
from skymark.statistics.difference import Verdict, difference
from skymark.statistics.interval import estimate, student_p_value, student_quantile

RATE = Metric(name="rate", heading="rate", better="higher", compared=True)
TIME = RATE.model_copy(update={"name": "time", "better": "lower"})
SHARE = RATE.model_copy(update={"name": "share", "scale": "linear"})
COUNT = RATE.model_copy(update={"name": "count", "scale": "exact"})


def test_student_quantiles_are_those_of_tables() -> None:
    """Values of Abramowitz, Stegun, "Handbook of Mathematical Functions", table 26.10."""
    for degrees, confidence, expected in (
        (1, 0.95, 12.706), (2, 0.95, 4.303), (10, 0.95, 2.228), (10, 0.99, 3.169), (30, 0.9, 1.697)
    ):  # fmt: skip
        assert student_quantile(degrees, confidence) == pytest.approx(expected, abs=6e-4)
        assert student_p_value(-expected, degrees) == pytest.approx(1 - confidence, abs=1e-4)


def test_no_degree_of_freedom_is_refused() -> None:
    with pytest.raises(ValueError, match="degree of freedom"):
        student_quantile(0)


def test_one_round_has_a_value_and_no_interval() -> None:
    found = estimate([12.0])
    assert found.value == pytest.approx(12.0)
    assert (found.low, found.high, found.relative_half_width) == (None, None, None)


def test_an_estimate_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="one round"):
        estimate([])


def test_the_log_scale_gives_the_geometric_mean_and_a_symmetric_ratio() -> None:
    found = estimate([1.0, 100.0])
    assert found.value == pytest.approx(10.0)
    assert found.low is not None
    assert found.high is not None
    assert found.value / found.low == pytest.approx(found.high / found.value)


def test_the_linear_scale_agrees_with_scipy() -> None:
    values = [0.91, 0.93, 0.90, 0.97]
    low, high = scipy.stats.t.interval(0.95, 3, loc=sum(values) / 4, scale=scipy.stats.sem(values))
    found = estimate(values, "linear")
    assert found.low == pytest.approx(low)
    assert found.high == pytest.approx(high)


def test_ninety_five_of_a_hundred_intervals_hold_the_true_rate() -> None:
    chance = random.Random(3)
    trials, held = 2000, 0
    for _ in range(trials):
        found = estimate([5000 * chance.lognormvariate(0, 0.05) for _ in range(4)])
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 5000 <= found.high
    assert held / trials == pytest.approx(0.95, abs=0.015)


def test_the_interval_of_a_ratio_agrees_with_welch_in_scipy() -> None:
    one, other = [100.0, 110.0, 105.0, 99.0], [80.0, 82.0, 81.5, 79.0]
    found = difference(one, other, RATE).ratio
    assert found is not None
    exact = scipy.stats.ttest_ind(
        [math.log(x) for x in one], [math.log(x) for x in other], equal_var=False
    ).confidence_interval(0.95)
    assert found.value == pytest.approx(1.283, abs=0.001)
    assert found.low is not None
    assert found.high is not None
    assert math.log(found.low) == pytest.approx(exact.low)
    assert math.log(found.high) == pytest.approx(exact.high)
    assert difference(one, other, RATE).p_value == pytest.approx(
        scipy.stats.ttest_ind(
            [math.log(x) for x in one], [math.log(x) for x in other], equal_var=False
        ).pvalue
    )


@pytest.mark.parametrize(
    ("candidate", "reference", "verdict"),
    [
        ([120, 121, 122], [100, 101, 102], Verdict.BETTER),
        ([80, 81, 82], [100, 101, 102], Verdict.WORSE),
        ([100, 101, 102], [100.5, 101, 101.5], Verdict.NO_DIFFERENCE),
        ([90, 130, 110], [100, 101, 102], Verdict.INCONCLUSIVE),
        ([200], [100, 101], Verdict.INCONCLUSIVE),
        ([100, 100, 100], [100, 100, 100], Verdict.NO_DIFFERENCE),
        ([200, 200], [100, 100], Verdict.BETTER),
    ],
)
def test_a_verdict_needs_a_statistical_and_a_practical_difference(
    candidate: list[float], reference: list[float], verdict: Verdict
) -> None:
    assert difference(candidate, reference, RATE).verdict is verdict


def test_a_real_difference_below_the_margin_is_not_called_better() -> None:
    exact = difference([103.0, 103.01, 103.02], [100.0, 100.01, 100.02], RATE)
    assert exact.verdict is Verdict.NO_DIFFERENCE
    ours, theirs = [103.0, 103.01, 103.02], [100.0, 100.01, 100.02]
    strict = difference(ours, theirs, RATE, practical=0.01)
    assert strict.verdict is Verdict.BETTER


@pytest.mark.parametrize(
    ("candidate", "reference", "verdict"),
    [
        ([120, 121, 122], [100, 101, 102], Verdict.WORSE),
        ([80, 81, 82], [100, 101, 102], Verdict.BETTER),
        ([100, 101, 102], [100.5, 101, 101.5], Verdict.NO_DIFFERENCE),
    ],
)
def test_more_is_worse_where_the_metric_says_that_lower_is_better(
    candidate: list[float], reference: list[float], verdict: Verdict
) -> None:
    found = difference(candidate, reference, TIME)
    assert found.verdict is verdict
    assert found.is_real == (verdict is not Verdict.NO_DIFFERENCE)


def test_the_interval_of_a_linear_metric_is_welchs_relative_to_the_reference() -> None:
    one, other = [0.50, 0.52, 0.51, 0.49], [0.40, 0.41, 0.405, 0.395]
    found = difference(one, other, SHARE)
    exact = scipy.stats.ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
    centre = sum(other) / 4
    assert found.verdict is Verdict.BETTER
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(0.505 / 0.4025)
    assert found.ratio.low == pytest.approx(1 + exact.low / centre)


@pytest.mark.parametrize("scale", [RATE, SHARE], ids=lambda metric: metric.scale)
def test_values_that_have_no_logarithm_are_compared_on_the_linear_scale(scale: Metric) -> None:
    found = difference([0.0, 0.01, 0.02], [0.5, 0.51, 0.52], scale)
    assert found.verdict is Verdict.WORSE
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(0.01 / 0.51)


def test_nothing_is_a_multiple_of_zero() -> None:
    found = difference([1.0, 1.01, 1.02], [0.0, 0.0, 0.0], SHARE)
    assert found.ratio is None
    assert found.verdict is Verdict.BETTER
    none = difference([0.0, 0.0], [0.0, 0.0], SHARE)
    assert none.verdict is Verdict.NO_DIFFERENCE


@pytest.mark.parametrize(
    ("candidate", "reference", "ratio", "verdict"),
    [
        ([8.0], [8.0], 1.0, Verdict.NO_DIFFERENCE),
        ([8.0], [8.1], 8 / 8.1, Verdict.WORSE),
        ([8.1], [8.0], 8.1 / 8, Verdict.BETTER),
        ([1.0], [0.0], None, Verdict.BETTER),
    ],
)
def test_what_does_not_vary_is_equal_or_not_after_one_round(
    candidate: list[float], reference: list[float], ratio: float | None, verdict: Verdict
) -> None:
    found = difference(candidate, reference, COUNT)
    assert found.verdict is verdict
    assert (None if found.ratio is None else found.ratio.value) == ratio
    assert found.ratio is None or found.ratio.low is None


def test_chance_alone_is_rarely_called_better_or_worse() -> None:
    chance = random.Random(5)
    trials, wrong = 1000, 0
    for _ in range(trials):
        one, other = ([chance.lognormvariate(3, 0.08) for _ in range(3)] for _ in range(2))
        wrong += difference(one, other, RATE).verdict in {Verdict.BETTER, Verdict.WORSE}
    assert wrong / trials < 0.06


def test_a_comparison_with_no_round_is_refused() -> None:
    with pytest.raises(ValueError, match="one round"):
        difference([], [1.0], RATE)
    with pytest.raises(ValueError, match="one round"):
        difference([1.0], [], RATE)


def test_statistics_load_neither_numpy_nor_scipy() -> None:
    code = (
        "import sys, skymark.suites.loading.figures, skymark.statistics.difference\n"
        "print([name for name in ('numpy', 'scipy', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
