"""Changes of a series' level are found where they are, and nowhere else."""

from __future__ import annotations

import random

import pytest

from skymark.model.metric import Metric
from skymark.statistics.change_points import change_points

RATE = Metric(name="rate", heading="rate", better="higher")
COUNT = RATE.model_copy(update={"name": "count", "scale": "exact"})
SHARE = RATE.model_copy(update={"name": "share", "scale": "linear"})


def series(*levels: tuple[float, int], noise: float = 0.02, seed: int = 1) -> list[float]:
    """Values at levels, each so many times, with noise."""
    chance = random.Random(seed)
    return [
        level * chance.lognormvariate(0, noise) for level, count in levels for _ in range(count)
    ]


@pytest.mark.parametrize("metric", [RATE, SHARE], ids=lambda one: one.scale)
def test_a_step_is_found_where_it_is(metric: Metric) -> None:
    assert change_points(series((1000, 12), (850, 9)), metric) == (12,)


def test_two_steps_are_found_also_where_the_second_takes_the_first_back() -> None:
    assert change_points(series((100, 10), (120, 6), (100, 10)), RATE) == (10, 16)


def test_a_slow_drift_is_found() -> None:
    values = [1000 * 0.985**run for run in range(30)]
    noisy = [value * one for value, one in zip(values, series((1, 30), noise=0.01), strict=True)]
    assert change_points(noisy, RATE)


def test_a_single_outlier_is_no_change() -> None:
    values = series((1000, 20))
    values[9] = 500
    assert change_points(values, RATE) == ()


def test_a_step_within_the_margin_does_not_count_unless_asked() -> None:
    values = series((1000, 20), (970, 20), noise=0.003)
    assert change_points(values, RATE) == ()
    assert change_points(values, RATE, practical=0.01) == (20,)


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.1])
def test_chance_alone_is_rarely_a_change(noise: float) -> None:
    found = sum(
        bool(change_points(series((1000, 20), noise=noise, seed=seed), RATE)) for seed in range(300)
    )
    assert found <= 15


def test_a_five_times_larger_noise_does_not_hide_a_large_step() -> None:
    found = [
        change_points(series((1000, 15), (700, 15), noise=0.1, seed=seed), RATE)
        for seed in range(50)
    ]
    assert sum(any(abs(place - 15) <= 1 for place in places) for places in found) >= 47


@pytest.mark.parametrize("values", [[], [5.0], [5.0, 9.0], [5.0, 5.0, 9.0]])
def test_too_few_runs_have_no_change(values: list[float]) -> None:
    assert change_points(values, RATE) == ()


def test_what_does_not_vary_changes_without_noise() -> None:
    assert change_points([8.0] * 5 + [9.0] * 4, COUNT) == (5,)
    assert change_points([8.0] * 9, COUNT) == ()
