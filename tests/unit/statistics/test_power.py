"""Rounds that a comparison lacks are those that then give a verdict."""

from __future__ import annotations

import math
import random
from statistics import fmean, stdev

import pytest

from skymark.model.metric import Metric
from skymark.statistics.difference import UnpairedContrast, Verdict, contrast, difference
from skymark.statistics.power import POWER, probability_of_verdict, rounds_to_verdict

RATE = Metric(name="rate", heading="rate", better="higher", compared=True)


def seen(change: float, spread: float, rounds: int = 3, margin: float = 0.05) -> UnpairedContrast:
    """A contrast on the logarithmic scale, as it might have been seen."""
    variances = (spread**2, spread**2)
    return UnpairedContrast(
        math.log1p(change), math.log1p(margin), None, (rounds, rounds), variances
    )


def simulated(change: float, spread: float, rounds: int) -> float:
    """The share of comparisons with so many rounds that have a verdict."""
    chance, trials = random.Random(f"{change}/{spread}/{rounds}"), 600
    settled = 0
    for _ in range(trials):
        ours = [(1 + change) * math.exp(chance.gauss(0, spread)) for _ in range(rounds)]
        theirs = [math.exp(chance.gauss(0, spread)) for _ in range(rounds)]
        settled += difference(ours, theirs, RATE).verdict is not Verdict.INCONCLUSIVE
    return settled / trials


@pytest.mark.parametrize(
    ("change", "spread"), [(0.15, 0.08), (0.10, 0.06), (0.0, 0.05), (0.02, 0.04), (-0.3, 0.3)]
)
def test_the_rounds_that_are_said_to_be_enough_give_a_verdict(change: float, spread: float) -> None:
    more = rounds_to_verdict(found := seen(change, spread))
    assert more is not None
    expected = probability_of_verdict(found, more)
    assert POWER <= expected < 0.9
    assert simulated(change, spread, 3 + more) == pytest.approx(expected, abs=0.06)
    assert simulated(change, spread, 3 + more // 2) < POWER - 0.05


def test_fewer_rounds_are_not_enough() -> None:
    found = seen(0.12, 0.08)
    more = rounds_to_verdict(found)
    assert more is not None
    assert probability_of_verdict(found, more) >= POWER > probability_of_verdict(found, more - 1)


def test_many_comparisons_need_more_rounds() -> None:
    one, many = (rounds_to_verdict(seen(0.15, 0.08), level) for level in (0.95, 0.9995))
    assert one is not None
    assert many is not None
    assert many > one


def test_twice_the_spread_needs_about_four_times_the_rounds() -> None:
    narrow, wide = (rounds_to_verdict(seen(0.15, spread)) for spread in (0.1, 0.2))
    assert narrow is not None
    assert wide is not None
    assert (wide + 3) / (narrow + 3) == pytest.approx(4, rel=0.15)


def test_no_number_of_rounds_settles_a_change_at_the_margin_itself() -> None:
    assert rounds_to_verdict(seen(0.05, 0.05)) is None


def test_a_single_round_says_nothing_of_the_rounds_that_lack() -> None:
    found = contrast([100.0], [90.0, 91.0], RATE, 0.05)
    assert rounds_to_verdict(found) is None
    with pytest.raises(ValueError, match="spread"):
        probability_of_verdict(found, 3)


def test_the_contrast_of_rounds_is_that_of_their_logarithms() -> None:
    ours, theirs = [100.0, 110.0, 105.0], [90.0, 91.0, 92.0, 90.0]
    found = contrast(ours, theirs, RATE, 0.05)
    logs = [[math.log(x) for x in side] for side in (ours, theirs)]
    assert found.change == pytest.approx(fmean(logs[0]) - fmean(logs[1]))
    assert found.variances == pytest.approx([stdev(side) ** 2 for side in logs])
    assert found.counts == (3, 4)
