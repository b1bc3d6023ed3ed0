"""Rounds go on until they are enough, and no longer."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from skymark.model.effort import Effort
from skymark.model.metric import Metric
from skymark.model.record import Round, RoundResult, Verification
from skymark.statistics.interval import is_precise_enough

STANDARD = Effort(
    name="standard",
    min_rounds=5,
    max_rounds=15,
    target_relative_interval=0.05,
    cell_timeout_s=300.0,
)
RATE = Metric(name="steps_per_s", heading="steps/s", better="higher")
NOISY = [1000.0, 1200.0, 900.0, 1100.0, 1000.0]


def at_rates(*rates: float | None) -> list[RoundResult]:
    """Rounds with these rates; None where a round has none."""
    return [
        RoundResult(
            round=number,
            started_at=datetime(2026, 1, 1, tzinfo=UTC),
            setup_s=0.1,
            timed_ns=10**9,
            metrics={} if rate is None else {"steps_per_s": rate},
            verification=Verification(passed=True),
        )
        for number, rate in enumerate(rates)
    ]


def is_enough(*rates: float | None, metric: Metric = RATE, effort: Effort = STANDARD) -> bool:
    return is_precise_enough(at_rates(*rates), metric, effort)


def test_rounds_go_on_until_the_least_number_is_done() -> None:
    assert not is_enough(*[1000.0] * 4)
    assert is_enough(*[1000.0] * 5)


def test_rounds_go_on_until_the_interval_is_narrow() -> None:
    assert not is_enough(*NOISY)
    lenient = STANDARD.model_copy(update={"target_relative_interval": 0.5})
    assert is_enough(*NOISY, effort=lenient)


def test_rounds_end_when_the_effort_is_spent() -> None:
    assert not is_enough(*([1000.0, 2000.0, 500.0] * 5)[:-1])
    assert is_enough(*[1000.0, 2000.0, 500.0] * 5)


def test_the_rounds_of_a_record_tell_as_well_as_results_whether_it_is_enough() -> None:
    rounds: list[Round] = [one.summary for one in at_rates(*[1000.0] * 5)]
    assert is_precise_enough(rounds, RATE, STANDARD)


def test_what_does_not_vary_is_known_after_one_round() -> None:
    exact = RATE.model_copy(update={"scale": "exact"})
    assert not is_enough(metric=exact)
    assert is_enough(1000.0, metric=exact)
    assert is_enough(1000.0, 2000.0, metric=exact)


def test_a_linear_metric_is_judged_on_its_own_scale() -> None:
    share = RATE.model_copy(update={"scale": "linear"})
    assert is_enough(0.9, 0.91, 0.9, 0.9, 0.91, metric=share)
    assert not is_enough(0.0, 0.2, 0.0, 0.1, 0.0, metric=share)


@pytest.mark.parametrize("rates", [(None,) * 5, (1000.0, None, 1000.0, 1000.0, 1000.0)])
def test_a_metric_that_a_round_lacks_is_never_precise(rates: tuple[float | None, ...]) -> None:
    assert not is_enough(*rates)
    assert is_enough(*rates, effort=STANDARD.model_copy(update={"max_rounds": 5}))


def test_one_round_is_never_precise_unless_no_more_are_allowed() -> None:
    once = STANDARD.model_copy(update={"min_rounds": 1})
    assert not is_enough(1000.0, effort=once)
    assert is_enough(1000.0, effort=once.model_copy(update={"max_rounds": 1}))


def test_no_round_is_not_enough() -> None:
    assert not is_enough()
    assert not is_enough(effort=STANDARD.model_copy(update={"min_rounds": 0}))
