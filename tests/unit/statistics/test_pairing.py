"""Pairs of rounds: what a drifting machine does to verdicts with and without them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from skymark.model.effort import Effort
from skymark.model.metric import Metric
from skymark.model.record import Round, Stop
from skymark.statistics.difference import (
    Verdict,
    contrast,
    difference,
    difference_of,
    enough_pairs,
    paired_contrast,
    paired_values,
    verdict_of,
)

RATE = Metric(name="rate", heading="rate", better="higher", compared=True)
PAIRS, TRIALS = 10, 150
DRIFT, NOISE = 0.01, 0.01
"""Standard deviations of the machine's step from round to round, and of a round by itself."""


def effort(least: int, most: int, interval: float = 0.02) -> Effort:
    return Effort(
        name="test",
        min_rounds=least,
        max_rounds=most,
        target_relative_interval=interval,
        cell_timeout_s=60,
    )


def rounds(values: Sequence[float], first: int = 0) -> list[Round]:
    return [
        Round(
            round=number,
            started_at=datetime(2026, 1, 1, tzinfo=UTC),
            setup_s=0,
            timed_ns=1,
            metrics={"rate": value},
        )
        for number, value in enumerate(values, first)
    ]


def speeds(chance: random.Random) -> list[float]:
    """The logarithm of a machine's speed at each of the rounds of two sides: a random walk."""
    walk = [0.0]
    for _ in range(2 * PAIRS - 1):
        walk.append(walk[-1] + chance.gauss(0, DRIFT))
    return walk


def share(verdict: Verdict, *, slowdown: float, in_turn: bool) -> float:
    """The share of simulated comparisons with a verdict, measured in turn or one by one."""
    chance, found = random.Random(7), 0
    for _ in range(TRIALS):
        machine = [math.exp(one + chance.gauss(0, NOISE)) for one in speeds(chance)]
        if in_turn:
            pairs = list(zip(machine[::2], machine[1::2], strict=True))
            turned = [pair[:: (-1) ** number] for number, pair in enumerate(pairs)]
            before, after = (list(side) for side in zip(*turned, strict=True))
        else:
            before, after = machine[:PAIRS], machine[PAIRS:]
        contrasted = paired_contrast if in_turn else contrast
        slower = [one * (1 - slowdown) for one in after]
        found += verdict_of(contrasted(slower, before, RATE, 0.02), RATE) is verdict
    return found / TRIALS


def test_a_machine_that_drifts_makes_few_false_verdicts_in_turn_and_many_one_by_one() -> None:
    in_turn, one_by_one = (
        sum(share(one, slowdown=0, in_turn=turn) for one in (Verdict.WORSE, Verdict.BETTER))
        for turn in (True, False)
    )
    assert in_turn <= 0.03
    assert one_by_one >= 0.4


def test_a_slowdown_by_5_percent_is_found_on_a_machine_that_drifts() -> None:
    assert share(Verdict.WORSE, slowdown=0.05, in_turn=True) >= 0.95


def test_what_disturbs_both_rounds_of_a_pair_alike_is_in_no_interval() -> None:
    before = [100.0, 300.0, 50.0, 170.0]
    found = difference_of(paired_contrast([1.1 * one for one in before], before, RATE, 0.02), RATE)
    assert found.verdict is Verdict.BETTER
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(1.1)
    assert found.ratio.low == pytest.approx(1.1)
    assert difference([1.1 * one for one in before], before, RATE).verdict is Verdict.INCONCLUSIVE


def test_student_s_interval_over_pairs_is_that_of_the_textbook() -> None:
    ours, theirs = [math.exp(one) for one in (1, 2, 6)], [math.exp(one) for one in (0, 0, 0)]
    found = paired_contrast(ours, theirs, RATE, 0.02)
    assert found.change == pytest.approx(3)
    assert found.error_after() == (pytest.approx(math.sqrt(7 / 3)), 2)
    assert found.half_width() == pytest.approx(4.30265 * math.sqrt(7 / 3), rel=1e-5)


def test_one_pair_is_inconclusive() -> None:
    assert verdict_of(paired_contrast([1.0], [2.0], RATE, 0.02), RATE) is Verdict.INCONCLUSIVE


def test_a_linear_metric_is_compared_by_the_differences_of_pairs() -> None:
    metric = RATE.model_copy(update={"scale": "linear"})
    pairs = [0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0]
    found = difference_of(paired_contrast(*pairs, metric, 0.02), metric)
    assert found.verdict is Verdict.WORSE
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(0.6)


def test_rounds_of_one_number_are_a_pair_and_others_are_left_out() -> None:
    ours, theirs = rounds([1.0, 2.0, 3.0]), rounds([20.0, 30.0, 40.0], first=1)
    assert paired_values(ours, theirs, "rate") == ([2.0, 3.0], [20.0, 30.0])


def test_pairs_go_on_until_their_ratio_is_known() -> None:
    narrow, wide = [100.0, 50.0, 75.0], [100.0, 80.0, 30.0]
    ours = rounds([1.5 * one for one in narrow])
    assert enough_pairs(ours[:1], rounds(narrow[:1]), RATE, effort(2, 9)) is None
    assert enough_pairs(ours, rounds(narrow), RATE, effort(2, 9)) is Stop.INTERVAL
    assert enough_pairs(ours, rounds(wide), RATE, effort(2, 9)) is None
    assert enough_pairs(ours, rounds(wide), RATE, effort(2, 3)) is Stop.ROUNDS


def test_a_round_without_its_other_is_no_pair_that_counts() -> None:
    ours, theirs = rounds([1.0, 1.0, 1.0]), rounds([1.0], first=2)
    assert enough_pairs(ours, theirs, RATE, effort(2, 3)) is None
