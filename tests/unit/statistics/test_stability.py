"""Each warning appears when it should, and rarely when it should not."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from skymark.model.effort import EFFORTS
from skymark.model.record import RoundResult, StabilityWarning, Verification
from skymark.statistics.stability import CHECKS, drift, outliers, two_speeds, warnings_of

STANDARD = EFFORTS["standard"]


def rounds_at(rates: Sequence[float], **more: Any) -> list[RoundResult]:
    """Rounds with these rates, of 200 measured batches each."""
    content: dict[str, Any] = {
        "started_at": datetime(2026, 1, 1, tzinfo=UTC),
        "import_s": 0.5,
        "setup_s": 0.1,
        "first_batch_ns": 1,
        "elements": 1_000_000,
        "bytes": 1,
        "wait_ns": (1,) * 250,
        "batch_elements": (10,) * 250,
        "epoch": tuple(k // 50 for k in range(250)),
        "verification": Verification(passed=True),
    }
    return [
        RoundResult(round=k, timed_ns=round(1e15 / rate), **{**content, **more})
        for k, rate in enumerate(rates)
    ]


def kinds(rounds: Sequence[RoundResult]) -> set[str]:
    return {warning.kind for warning in warnings_of(rounds, STANDARD)}


def test_steady_rounds_get_no_warning() -> None:
    assert kinds(rounds_at([1000, 1001, 1002, 999, 1000, 1001, 998])) == set()


def test_no_rounds_get_no_warning() -> None:
    assert warnings_of([], STANDARD) == ()


def test_a_single_round_is_warned_of() -> None:
    assert kinds(rounds_at([1000])) == {"no-interval"}


def test_a_wide_interval_is_warned_of_with_its_width() -> None:
    (warning,) = warnings_of(rounds_at([1000, 1200, 900]), STANDARD)
    assert warning.kind == "wide-interval"
    assert "after 3 rounds" in warning.message
    assert "standard effort asks for ±5%" in warning.message


def test_a_steady_fall_is_drift() -> None:
    found = drift(rounds_at([1000, 980, 961, 939, 920, 900]), STANDARD)
    assert found is not None
    assert "-10%" in found.message


def test_a_steady_change_too_small_to_matter_is_no_drift() -> None:
    assert drift(rounds_at([1000, 1001, 1002, 1003, 1004, 1005]), STANDARD) is None


def test_one_slow_round_among_many_is_an_outlier() -> None:
    found = outliers(rounds_at([1000, 1003, 700, 998, 1001, 1002]), STANDARD)
    assert found is not None
    assert "round 2 is far" in found.message


def test_two_speeds_are_called_bimodal() -> None:
    found = two_speeds(rounds_at([1000, 1500, 1003, 1497, 1001, 1502]), STANDARD)
    assert found is not None
    assert "3 near 1,001 and 3 near 1,500" in found.message


def test_a_very_short_timed_region_is_warned_of() -> None:
    assert "short-region" in kinds(rounds_at([1e8, 1.001e8, 1e8, 1e8, 1e8]))


def test_percentiles_of_few_batches_are_warned_of() -> None:
    few = {"wait_ns": (1,) * 20, "batch_elements": (10,) * 20, "epoch": (0,) * 10 + (1,) * 10}
    assert kinds(rounds_at([1000, 1001, 1000], **few)) == {"few-waits"}


def test_a_scenario_without_timed_batches_is_not_warned_of_few_waits() -> None:
    none = {"wait_ns": (), "batch_elements": (), "epoch": ()}
    assert kinds(rounds_at([1000, 1001, 1000], **none)) == set()


def test_a_first_measured_epoch_that_is_always_slower_means_the_warm_up_was_too_short() -> None:
    waits = (300,) * 50 + (130,) * 50 + (100,) * 150
    assert kinds(rounds_at([1000, 1001, 1000], wait_ns=waits)) == {"warm-up"}


def test_every_warning_says_what_to_do() -> None:
    cases = [
        rounds_at([1000]),
        rounds_at([1000, 1200, 900]),
        rounds_at([1000, 980, 961, 939, 920, 900]),
        rounds_at([1000, 1003, 700, 998, 1001, 1002]),
        rounds_at([1000, 1500, 1003, 1497, 1001, 1502]),
        rounds_at([1e8, 1e8], wait_ns=(1,), batch_elements=(1,), epoch=(1,)),
        rounds_at([1000] * 3, wait_ns=(300,) * 50 + (130,) * 50 + (100,) * 150),
    ]
    found = [warning for case in cases for warning in warnings_of(case, STANDARD)]
    assert len({warning.kind for warning in found}) == len(CHECKS)
    assert all(len(warning.action) > 20 for warning in found)


@pytest.mark.parametrize("check", [drift, outliers, two_speeds])
@pytest.mark.parametrize("count", [5, 6, 7, 10, 20])
def test_chance_alone_raises_a_warning_in_fewer_than_five_of_a_hundred_cells(
    check: Callable[..., StabilityWarning | None], count: int
) -> None:
    chance = random.Random(f"{check.__name__}/{count}")
    noisy = ([chance.lognormvariate(7, 0.05) for _ in range(count)] for _ in range(400))
    raised = sum(check(_bare(rates), STANDARD) is not None for rates in noisy)
    # The true share is below 4 %; 5.5 % leaves room for the chance in 400 trials.
    assert raised / 400 < 0.055


def _bare(rates: Sequence[float]) -> list[RoundResult]:
    """Rounds that have rates only, unvalidated, because thousands are needed."""
    return [
        RoundResult.model_construct(round=k, elements=1_000_000, timed_ns=round(1e15 / rate))
        for k, rate in enumerate(rates)
    ]
