"""Each warning appears when it should, and rarely when it should not."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest

from skymark.model.effort import Effort
from skymark.model.metric import Metric
from skymark.model.record import Round, StabilityWarning
from skymark.statistics.stability import (
    CHECKS,
    CheckedRounds,
    drift,
    outliers,
    two_speeds,
    warnings_of,
)

STANDARD = Effort(
    name="standard",
    min_rounds=5,
    max_rounds=15,
    target_relative_interval=0.05,
    cell_timeout_s=300.0,
)
RATE = Metric(name="steps_per_s", heading="steps/s", better="higher")
STEPS = 1_000_000


def rounds_at(rates: Sequence[float]) -> list[Round]:
    """Rounds of so many steps with these rates."""
    return [
        Round(
            round=number,
            started_at=datetime(2026, 1, 1, tzinfo=UTC),
            setup_s=0.1,
            timed_ns=round(STEPS / rate * 1e9),
            metrics={"steps_per_s": rate},
        )
        for number, rate in enumerate(rates)
    ]


def seen(rates: Sequence[float]) -> CheckedRounds:
    return CheckedRounds(rounds_at(rates), STANDARD, RATE)


def kinds(rounds: Sequence[Round], metric: Metric = RATE) -> set[str]:
    return {warning.kind for warning in warnings_of(rounds, STANDARD, metric)}


def test_steady_rounds_get_no_warning() -> None:
    assert kinds(rounds_at([1000, 1001, 1002, 999, 1000, 1001, 998])) == set()


def test_no_rounds_get_no_warning() -> None:
    assert warnings_of([], STANDARD, RATE) == ()


def test_a_single_round_is_warned_of() -> None:
    assert kinds(rounds_at([1000])) == {"no-interval"}


def test_a_wide_interval_is_warned_of_with_its_width() -> None:
    (warning,) = warnings_of(rounds_at([1000, 1200, 900]), STANDARD, RATE)
    assert warning.kind == "wide-interval"
    assert "after 3 rounds" in warning.message
    assert "±5 %" in warning.message


def test_an_interval_wider_than_the_figure_has_no_larger_number() -> None:
    (warning,) = warnings_of(rounds_at([10, 1000, 30]), STANDARD, RATE)
    widths = [int(one) for one in re.findall(r"±(\d+) %", warning.message)]
    assert widths == [100, 5]


def test_a_steady_fall_is_drift() -> None:
    found = drift(seen([1000, 980, 961, 939, 920, 900]))
    assert found is not None
    assert "-10 %" in found.message


def test_a_steady_change_too_small_to_matter_is_no_drift() -> None:
    assert drift(seen([1000, 1001, 1002, 1003, 1004, 1005])) is None


def test_one_slow_round_among_many_is_an_outlier() -> None:
    found = outliers(seen([1000, 1003, 700, 998, 1001, 1002]))
    assert found is not None
    assert "round 2 " in found.message


def test_two_speeds_are_called_bimodal() -> None:
    found = two_speeds(seen([1000, 1500, 1003, 1497, 1001, 1502]))
    assert found is not None
    assert re.search(r"\b3\D+1,001 .*\b3\D+1,500 steps/s", found.message)


def test_a_very_short_timed_region_is_warned_of() -> None:
    assert "short-region" in kinds(rounds_at([1e8, 1.001e8, 1e8, 1e8, 1e8]))


def test_warnings_are_in_the_words_of_the_metric() -> None:
    falling = rounds_at([1000, 980, 961, 939, 920, 900])
    (found,) = (one for one in warnings_of(falling, STANDARD, RATE) if one.kind == "drift")
    assert found.message.startswith("steps/s changed steadily")


def test_a_metric_of_which_less_is_better_is_looked_at_like_any_other() -> None:
    latency = Metric(name="latency_ns", heading="latency", better="lower")
    rounds = [
        one.model_copy(update={"metrics": {"latency_ns": 1e9 / one.metrics["steps_per_s"]}})
        for one in rounds_at([1000, 1003, 700, 998, 1001, 1002])
    ]
    assert "outlier-rounds" in kinds(rounds, latency)


def test_what_does_not_vary_is_not_looked_at() -> None:
    exact = RATE.model_copy(update={"scale": "exact"})
    assert kinds(rounds_at([1000]), exact) == set()
    assert kinds(rounds_at([1000, 1500, 1003, 1497, 1001, 1502]), exact) == set()


def test_a_metric_that_a_round_lacks_or_that_is_nothing_is_not_looked_at() -> None:
    rounds = rounds_at([1000, 2000, 500])
    lacking = rounds[1].model_copy(update={"metrics": {}})
    assert kinds([rounds[0], lacking, rounds[2]]) == set()
    nothing = rounds[1].model_copy(update={"metrics": {"steps_per_s": 0.0}})
    assert kinds([rounds[0], nothing, rounds[2]]) == set()


def test_every_warning_says_what_to_do() -> None:
    cases = [
        rounds_at([1000]),
        rounds_at([1000, 1200, 900]),
        rounds_at([1000, 980, 961, 939, 920, 900]),
        rounds_at([1000, 1003, 700, 998, 1001, 1002]),
        rounds_at([1000, 1500, 1003, 1497, 1001, 1502]),
        rounds_at([1e8, 1e8]),
    ]
    found = [warning for case in cases for warning in warnings_of(case, STANDARD, RATE)]
    assert len({warning.kind for warning in found}) == len(CHECKS)
    assert all(len(warning.action) > 20 for warning in found)


@pytest.mark.parametrize("check", [drift, outliers, two_speeds])
@pytest.mark.parametrize("count", [5, 6, 7, 10, 20])
def test_chance_alone_raises_a_warning_in_fewer_than_five_of_a_hundred_cells(
    check: Callable[[CheckedRounds], StabilityWarning | None], count: int
) -> None:
    chance = random.Random(f"{check.__name__}/{count}")
    noisy = ([chance.lognormvariate(7, 0.05) for _ in range(count)] for _ in range(400))
    raised = sum(check(_bare(rates)) is not None for rates in noisy)
    # The true share is below 4 %; 5.5 % leaves room for the chance in 400 trials.
    assert raised / 400 < 0.055


def _bare(rates: Sequence[float]) -> CheckedRounds:
    """Rounds that have rates only, unvalidated, because thousands are needed."""
    rounds = [
        Round.model_construct(round=number, metrics={"steps_per_s": rate})
        for number, rate in enumerate(rates)
    ]
    return CheckedRounds(rounds, STANDARD, RATE)
