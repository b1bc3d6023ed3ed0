"""Metrics over all rounds, from rounds whose values are known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from skymark.model.metric import Figure, Metric
from skymark.model.record import Round
from skymark.statistics.interval import estimate, figure_of, figures_of

METRICS = (
    Metric(name="steps_per_s", heading="steps/s", better="higher"),
    Metric(name="busy", heading="busy", better="higher", scale="linear"),
    Metric(name="steps", heading="steps", scale="exact"),
    Metric(name="peak_bytes", heading="peak", pooled=True),
    Metric(name="resume_s", heading="resume s", better="lower", own=True),
)


def round_of(number: int = 0, **metrics: float) -> Round:
    return Round(
        round=number,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        setup_s=0.1,
        timed_ns=10**9,
        metrics=metrics,
    )


def rounds_of(name: str, *values: float) -> Sequence[Round]:
    return [round_of(number, **{name: value}) for number, value in enumerate(values)]


def test_a_figure_is_the_mean_on_its_scale_with_its_interval() -> None:
    found = figures_of(rounds_of("steps_per_s", 1.0, 2.0, 3.0), METRICS)
    assert found == {"steps_per_s": estimate([1.0, 2.0, 3.0], "log")}
    assert found["steps_per_s"].value == pytest.approx(6 ** (1 / 3))
    assert found["steps_per_s"].low is not None
    found = figures_of(rounds_of("busy", 0.90, 0.92, 0.94), METRICS)
    assert found["busy"] == estimate([0.90, 0.92, 0.94], "linear")
    assert found["busy"].value == pytest.approx(0.92)


def test_one_round_gives_a_figure_without_an_interval() -> None:
    (found,) = figures_of(rounds_of("steps_per_s", 5.0), METRICS).values()
    assert (found.value, found.low, found.high) == (pytest.approx(5.0), None, None)


def test_figures_come_in_the_order_in_which_they_are_declared() -> None:
    rounds = [round_of(0, unheard_of=1, steps=2, busy=0.5, steps_per_s=1)]
    assert list(figures_of(rounds, METRICS)) == ["steps_per_s", "busy", "steps", "unheard_of"]


def test_what_one_round_lacks_is_missing_and_not_guessed() -> None:
    rounds = [round_of(0, steps_per_s=1.0, busy=0.5), round_of(1, steps_per_s=1.0)]
    assert list(figures_of(rounds, METRICS)) == ["steps_per_s"]


def test_a_metric_of_some_scenarios_is_taken_from_the_rounds_that_have_it() -> None:
    rounds = [round_of(0, resume_s=1.0), round_of(1), round_of(2, resume_s=4.0)]
    assert figures_of(rounds, METRICS)["resume_s"] == estimate([1.0, 4.0], "log")


def test_a_metric_that_nobody_declared_has_a_figure_too() -> None:
    rounds = rounds_of("unheard_of", 1.0, 2.0)
    assert figures_of(rounds, METRICS)["unheard_of"] == estimate([1.0, 2.0], "log")


def test_pooled_metrics_are_left_to_the_suite() -> None:
    assert figures_of(rounds_of("peak_bytes", 1.0, 2.0), METRICS) == {}


def test_no_rounds_have_no_figures() -> None:
    assert figures_of([], METRICS) == {}


@pytest.mark.parametrize("values", [(0.0, 0.0), (0.0, 1.0), (-1.0, 2.0)])
def test_values_without_a_logarithm_are_averaged_as_they_are(values: tuple[float, ...]) -> None:
    """A time below one tick of the clock is zero, and is kept as that."""
    assert figure_of(values, "log") == estimate(values, "linear")


def test_what_does_not_vary_has_the_value_of_the_last_round_and_no_interval() -> None:
    assert figure_of([3.0, 3.0], "exact") == Figure(value=3.0)
    assert figures_of(rounds_of("steps", 3.0, 4.0), METRICS)["steps"] == Figure(value=4.0)
