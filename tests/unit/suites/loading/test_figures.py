"""Figures derived from rounds whose waits are known."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from skymark.model.effort import EFFORTS
from skymark.model.record import Resources, RoundResult, Verification
from skymark.suites.loading.figures import enough, figures_of, measured_waits, summary_of

MS = 1_000_000


def round_of(number: int = 0, **more: Any) -> RoundResult:
    """A round of one warm-up and two measured epochs of 50 batches of 10, a batch a millisecond."""
    content: dict[str, Any] = {
        "round": number,
        "started_at": datetime(2026, 1, 1, tzinfo=UTC),
        "import_s": 0.5,
        "setup_s": 0.1,
        "first_batch_ns": 40 * MS,
        "timed_ns": 100 * MS,
        "elements": 1000,
        "bytes": 4_000_000,
        "wait_ns": (40 * MS,) + (9 * MS,) * 49 + (1 * MS,) * 100,
        "batch_elements": (10,) * 150,
        "epoch": (0,) * 50 + (1,) * 50 + (2,) * 50,
        "resources": Resources(cpu_s=0.2, peak_pss_bytes=1000, processes=3),
        "verification": Verification(passed=True),
    }
    return RoundResult(**{**content, **more})


def test_rates_are_those_of_the_timed_region() -> None:
    summary = summary_of(round_of())
    assert summary.samples_per_s == pytest.approx(10_000)
    assert summary.bytes_per_s == pytest.approx(40e6)
    assert summary.utilisation is None


def test_a_round_without_a_timed_region_has_no_rate() -> None:
    with pytest.raises(ValueError, match="no timed region"):
        summary_of(round_of(timed_ns=0))


def test_waits_of_the_warm_up_do_not_count() -> None:
    assert measured_waits([round_of(), round_of(1)]) == [MS] * 200
    assert len(measured_waits([round_of(warmup_epochs=2)])) == 50


def test_percentiles_pool_the_measured_waits_of_all_rounds() -> None:
    chance = np.random.default_rng(0)
    waits = [tuple(int(x) for x in chance.integers(1, 10**7, 150)) for _ in range(3)]
    figures = figures_of([round_of(k, wait_ns=wait) for k, wait in enumerate(waits)])
    pooled = np.concatenate([wait[50:] for wait in waits])
    expected = np.percentile(pooled, [50, 95, 99])
    found = (figures.wait_p50_ns, figures.wait_p95_ns, figures.wait_p99_ns)
    assert found == pytest.approx(tuple(expected))


def test_percentiles_are_missing_where_no_batch_was_timed() -> None:
    figures = figures_of([round_of(wait_ns=(), epoch=(), batch_elements=())])
    assert (figures.wait_p50_ns, figures.wait_p95_ns, figures.wait_p99_ns) == (None, None, None)


def test_utilisation_is_the_think_time_slept_over_the_whole_time() -> None:
    rounds = [round_of(k, think_ns=think * MS) for k, think in enumerate((90, 92, 94))]
    found = figures_of(rounds).utilisation
    assert found is not None
    assert found.value == pytest.approx(0.92)
    assert summary_of(rounds[0]).utilisation == pytest.approx(0.9)


def test_cpu_seconds_are_per_thousand_samples() -> None:
    found = figures_of([round_of(), round_of(1)]).cpu_s_per_1000_samples
    assert found is not None
    assert found.value == pytest.approx(0.2)


def test_a_resource_that_one_round_lacks_is_missing_not_guessed() -> None:
    figures = figures_of([round_of(), round_of(1, resources=Resources())])
    assert figures.cpu_s_per_1000_samples is None
    assert figures.peak_pss_bytes is None


def test_peak_memory_is_the_largest_of_all_rounds() -> None:
    high = Resources(cpu_s=0.2, peak_pss_bytes=5000, processes=3)
    assert figures_of([round_of(), round_of(1, resources=high)]).peak_pss_bytes == 5000


def test_a_cpu_time_below_one_tick_is_kept_as_zero() -> None:
    idle = Resources(cpu_s=0.0, peak_pss_bytes=1000, processes=1)
    found = figures_of([round_of(k, resources=idle) for k in range(2)]).cpu_s_per_1000_samples
    assert found is not None
    assert found.value == 0.0


def test_a_scenarios_own_figures_get_intervals_too() -> None:
    rounds = [round_of(k, extra={"resume_s": 1.0 + k, "lost": 0.0}) for k in range(3)]
    extra = figures_of(rounds).extra
    assert extra["resume_s"].value == pytest.approx(6 ** (1 / 3))
    assert extra["resume_s"].low is not None
    assert extra["lost"].value == 0.0


def at_rates(*rates: float) -> list[RoundResult]:
    return [round_of(k, timed_ns=round(1e12 / rate)) for k, rate in enumerate(rates)]


def test_rounds_go_on_until_the_least_number_is_done() -> None:
    standard = EFFORTS["standard"]
    assert not enough(at_rates(*[1000.0] * 4), standard)
    assert enough(at_rates(*[1000.0] * 5), standard)


def test_rounds_go_on_until_the_interval_is_narrow() -> None:
    noisy = [1000.0, 1200.0, 900.0, 1100.0, 1000.0]
    assert not enough(at_rates(*noisy), EFFORTS["standard"])


def test_rounds_end_when_the_effort_is_spent() -> None:
    noisy = [1000.0, 2000.0, 500.0] * 5
    assert enough(at_rates(*noisy), EFFORTS["standard"])


def test_summaries_tell_as_well_as_results_whether_it_is_enough() -> None:
    rounds = at_rates(*[1000.0] * 5)
    assert enough([summary_of(one) for one in rounds], EFFORTS["standard"])
