"""What libraries did alike, and whether one that is held against it is judged rightly."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skymark.statistics.change_points import LEAST, beside, common_change
from skymark.statistics.difference import agreed, contrast, corrected, difference
from tests.scripted_suite import ScriptedSuite

METRIC = ScriptedSuite.declaration.primary_metric
MARGIN = 0.05


def test_too_few_libraries_have_nothing_in_common():
    assert common_change([0.1] * (LEAST - 1)) is None
    assert common_change([0.1] * LEAST) is not None


def test_it_is_the_median_and_one_library_that_changed_moves_it_little():
    usual = [0.10, 0.11, 0.12, 0.13, 0.14]
    found, disturbed = common_change(usual), common_change([*usual, 3.0])
    assert found.change == pytest.approx(0.12)
    assert disturbed.change == pytest.approx(0.125)
    assert disturbed.error < 2 * found.error
    assert found.is_shown


def test_libraries_of_which_half_rise_and_half_fall_show_nothing():
    assert not common_change([-0.2, -0.1, 0.0, 0.1, 0.2]).is_shown


def test_its_interval_holds_the_truth_about_as_often_as_it_says():
    chance = np.random.default_rng(3)
    held = []
    for _ in range(2000):
        found = common_change(list(chance.normal(0.1, 0.03, 8)))
        held.append(abs(found.change - 0.1) <= found.half_width())
    assert 0.9 < np.mean(held) < 0.99


def test_a_contrast_beside_others_is_less_their_change_and_less_certain():
    own = contrast([110.0, 112.0, 114.0], [100.0, 101.0, 103.0], METRIC, MARGIN)
    others = common_change([0.05, 0.06, 0.07, 0.08, 0.09])
    found = beside(own, others)
    assert found.change == pytest.approx(own.change - 0.07)
    error, degrees = found.error_after()
    assert error == pytest.approx(math.hypot(own.error_after()[0], others.error))
    assert degrees >= min(own.error_after()[1], others.degrees)
    assert found.error_after(10_000)[0] == pytest.approx(others.error, rel=0.1)
    assert beside(contrast([1.0], [1.0], METRIC, MARGIN), others).error_after() is None


def any_said_to_differ(chance, machine_s, *, with_others):
    """Return whether any of equal cells is said to differ, after the machine changed."""
    after = np.exp(chance.normal(0, machine_s))
    cells = {
        (library, scenario): [
            list(speed * np.exp(chance.normal(0, 0.05, 8))) for speed in (1000 * after, 1000.0)
        ]
        for library in range(8)
        for scenario in range(3)
    }
    contrasts = {key: contrast(*sides, METRIC, MARGIN) for key, sides in cells.items()}
    found = []
    for key, sides in cells.items():
        one = difference(*sides, METRIC, MARGIN)
        if with_others:
            means = [
                np.mean([contrasts[library, scenario].change for scenario in range(3)])
                for library in range(8)
                if library != key[0]
            ]
            one = agreed(one, beside(contrasts[key], common_change(means)), METRIC)
        found.append(one)
    return any(one.is_real for one in corrected(found))


def test_verdicts_are_false_no_more_often_however_much_the_machine_changed():
    chance = np.random.default_rng(7)
    alone = [any_said_to_differ(chance, 0.08, with_others=False) for _ in range(200)]
    beside_others = [any_said_to_differ(chance, 0.08, with_others=True) for _ in range(200)]
    assert np.mean(alone) > 0.3
    assert np.mean(beside_others) <= 0.05
