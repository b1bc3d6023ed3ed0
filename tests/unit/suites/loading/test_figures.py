"""Metrics of loaders, from rounds whose waits are known."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from skymark.measure.consumer import Transfer
from skymark.model.effort import Effort
from skymark.model.machine import GpuUse
from skymark.model.metric import Figure
from skymark.model.plan import Selection
from skymark.model.record import Resources, RoundResult, Verification
from skymark.suites.loading.drives.outcome import Outcome
from skymark.suites.loading.drives.stream import Stream
from skymark.suites.loading.figures import all_figures, round_metrics, stream_waits
from skymark.suites.loading.metrics import DECLARATION
from skymark.suites.loading.suite import LoadingSuite
from skymark.suites.loading.tuning import EFFORTS

MS = 1_000_000
SELECTION = Selection(scenarios=("TAB-1",), adapters=("numpy",))
PERCENTILES = ("wait_p50_ns", "wait_p95_ns", "wait_p99_ns")


def outcome_of(**more: Any) -> Outcome:
    """A round of one warm-up and two measured epochs of 50 batches of 10, a batch a millisecond."""
    content: dict[str, Any] = {
        "setup_s": 0.1,
        "first_batch_ns": 40 * MS,
        "timed_ns": 100 * MS,
        "elements": 1000,
        "bytes": 4_000_000,
        "wait_ns": [40 * MS] + [9 * MS] * 49 + [1 * MS] * 100,
        "batch_elements": [10] * 150,
        "epoch": [0] * 50 + [1] * 50 + [2] * 50,
        "resources": Resources(cpu_s=0.2, peak_pss_bytes=1000, processes=3),
    }
    return Outcome(**{**content, **more})


def round_of(number: int = 0, **more: Any) -> RoundResult:
    """The same, as the worker's side reports it."""
    outcome = outcome_of(**more)
    return RoundResult(
        round=number,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        setup_s=outcome.setup_s,
        timed_ns=outcome.timed_ns,
        metrics=round_metrics(outcome, import_s=0.5),
        resources=outcome.resources,
        samples=outcome.samples,
        verification=Verification(passed=True),
    )


def figure(name: str, *rounds: RoundResult) -> Figure:
    return all_figures(rounds)[name]


# Of one round


def test_rates_are_those_of_the_timed_region() -> None:
    metrics = round_metrics(outcome_of(), import_s=0.5)
    assert metrics["samples_per_s"] == pytest.approx(10_000)
    assert metrics["bytes_per_s"] == pytest.approx(40e6)
    assert metrics["first_batch_ns"] == 40 * MS
    assert metrics["import_s"] == 0.5
    assert metrics["elements"] == 1000
    assert "utilisation" not in metrics


def test_the_rate_is_of_the_stream_and_that_of_whole_epochs_stands_beside_it() -> None:
    outcome = outcome_of(streamed=Stream(920, 46 * MS), restart_ns=[20 * MS, 30 * MS])
    metrics = round_metrics(outcome, import_s=0.5)
    assert metrics["samples_per_s"] == pytest.approx(20_000)
    assert metrics["bytes_per_s"] == pytest.approx(80e6)
    assert metrics["epoch_samples_per_s"] == pytest.approx(10_000)
    assert metrics["epoch_restart_ns"] == 25 * MS


def test_the_rate_of_the_copies_to_a_device_stands_beside_that_of_plain_copies() -> None:
    metrics = round_metrics(outcome_of(transfer=Transfer(3_000, 6_000, 500, 250)), import_s=0.5)
    assert metrics["delivery_bytes_per_s"] == pytest.approx(0.5e9)
    assert metrics["copy_bytes_per_s"] == pytest.approx(2e9)
    assert {"delivery_bytes_per_s", "copy_bytes_per_s"}.isdisjoint(round_metrics(outcome_of(), 0.5))


def test_the_use_of_gpus_is_told_with_the_energy_per_1000_samples() -> None:
    usual = {"index": 0, "name": "A GPU", "samples": 9, "kernel_share": 0.8, "power_w": 350.0}
    one = GpuUse(**usual, sm_clock_mhz=1900, peak_memory_bytes=5000, board_energy_j=35.0)
    used = Resources(gpus=(one, one.model_copy(update={"board_energy_j": 15.0})))
    metrics = round_metrics(outcome_of(resources=used), import_s=0.5)
    found = {name: value for name, value in metrics.items() if name.startswith(("gpu", "energy"))}
    assert found == {
        "gpu_utilisation": pytest.approx(0.8),
        "gpu_clock_mhz": 1900,
        "gpu_power_w": 700,
        "gpu_peak_memory_bytes": 5000,
        "energy_j_per_1000_samples": pytest.approx(50.0),
    }
    assert metrics.keys() <= {one.name for one in DECLARATION.metrics}
    assert found.keys().isdisjoint(round_metrics(outcome_of(), import_s=0.5))


def test_a_round_without_a_timed_region_has_no_rate() -> None:
    with pytest.raises(ValueError, match="no timed region"):
        round_metrics(outcome_of(timed_ns=0), import_s=0.5)


def test_what_a_round_lacks_is_absent_and_not_zero() -> None:
    bare = round_metrics(outcome_of(first_batch_ns=None, resources=Resources()), import_s=0.5)
    lacking = {"first_batch_ns", "cpu_s_per_1000_samples", "peak_pss_bytes", "utilisation"}
    lacking |= {"stream_utilisation"}
    assert lacking.isdisjoint(bare)


def test_a_round_has_only_metrics_that_the_suite_declares() -> None:
    metrics = round_metrics(
        outcome_of(busy_ns=MS, consumed=4, extra={"resume_s": 1.0}), import_s=0.5
    )
    assert metrics.keys() <= {one.name for one in DECLARATION.metrics}


def test_raw_samples_have_the_columns_that_the_suite_declares_equally_long() -> None:
    samples = outcome_of().samples
    assert list(samples) == list(DECLARATION.sample_columns)
    assert {len(values) for values in samples.values()} == {150}
    assert samples["warm_up"] == (1,) * 50 + (0,) * 100


# Over all rounds


def test_waits_of_the_warm_up_do_not_count() -> None:
    assert stream_waits([round_of(), round_of(1)]) == [MS] * 200


def test_waits_outside_the_stream_do_not_count() -> None:
    streamed = [False] * 54 + [True] * 46 + [False] * 4 + [True] * 46
    waits = [9 * MS] * 54 + [MS] * 46 + [9 * MS] * 4 + [2 * MS] * 46
    one = round_of(wait_ns=waits, in_stream=streamed, streamed=Stream(920, 138 * MS))
    assert stream_waits([one]) == [MS] * 46 + [2 * MS] * 46
    assert all_figures([one])["wait_p99_ns"].value == 2 * MS


def test_percentiles_pool_the_measured_waits_of_all_rounds() -> None:
    chance = np.random.default_rng(0)
    waits = [[int(x) for x in chance.integers(1, 10**7, 150)] for _ in range(3)]
    figures = all_figures([round_of(number, wait_ns=wait) for number, wait in enumerate(waits)])
    pooled = np.concatenate([wait[50:] for wait in waits])
    expected = np.percentile(pooled, [50, 95, 99])
    assert [figures[name].value for name in PERCENTILES] == pytest.approx(list(expected))
    assert [figures[name].low for name in PERCENTILES] == [None] * 3


def test_percentiles_are_missing_where_no_batch_was_timed() -> None:
    figures = all_figures([round_of(wait_ns=[], epoch=[], batch_elements=[])])
    assert figures.keys().isdisjoint(PERCENTILES)
    assert "samples_per_s" in figures


def test_utilisation_is_the_time_in_steps_or_slept_over_the_whole_time() -> None:
    rounds = [round_of(k, busy_ns=think * MS, consumed=100) for k, think in enumerate((90, 92, 94))]
    assert figure("utilisation", *rounds).value == pytest.approx(0.92)
    assert rounds[0].metrics["utilisation"] == pytest.approx(0.9)
    assert rounds[0].metrics["step_ns"] == pytest.approx(0.9 * MS)


def test_of_the_stream_it_is_the_busy_time_in_it_over_its_own_time() -> None:
    streamed = Stream(920, 40 * MS, 38 * MS)
    metrics = round_metrics(
        outcome_of(streamed=streamed, busy_ns=60 * MS, consumed=100), import_s=0.5
    )
    assert metrics["stream_utilisation"] == pytest.approx(0.95)
    whole = round_metrics(outcome_of(busy_ns=60 * MS, consumed=100), import_s=0.5)
    assert whole["stream_utilisation"] == whole["utilisation"]


def test_cpu_seconds_are_per_thousand_samples() -> None:
    assert figure("cpu_s_per_1000_samples", round_of(), round_of(1)).value == pytest.approx(0.2)


def test_a_resource_that_one_round_lacks_is_missing_not_guessed() -> None:
    figures = all_figures([round_of(), round_of(1, resources=Resources())])
    assert figures.keys().isdisjoint({"cpu_s_per_1000_samples", "peak_pss_bytes"})


def test_peak_memory_is_the_largest_of_all_rounds() -> None:
    high = Resources(cpu_s=0.2, peak_pss_bytes=5000, processes=3)
    assert figure("peak_pss_bytes", round_of(), round_of(1, resources=high)) == Figure(value=5000)


def test_a_cpu_time_below_one_tick_is_kept_as_zero() -> None:
    idle = Resources(cpu_s=0.0, peak_pss_bytes=1000, processes=1)
    rounds = [round_of(number, resources=idle) for number in range(2)]
    assert figure("cpu_s_per_1000_samples", *rounds).value == 0.0


def test_a_scenarios_own_figures_get_intervals_too() -> None:
    rounds = [round_of(k, extra={"resume_s": 1.0 + k, "lost": 0.0}) for k in range(3)]
    assert figure("resume_s", *rounds).value == pytest.approx(6 ** (1 / 3))
    assert figure("resume_s", *rounds).low is not None
    assert figure("lost", *rounds).value == 0.0


# The suite's policy


def is_enough(effort: Effort, *rates: float) -> bool:
    rounds = [round_of(k, timed_ns=round(1e12 / rate)) for k, rate in enumerate(rates)]
    suite = LoadingSuite()
    (planned,) = suite.plan(SELECTION, effort)
    return suite.is_enough(planned.cell, rounds, effort)


def test_the_rate_decides_when_there_are_rounds_enough() -> None:
    standard = EFFORTS["standard"]
    assert not is_enough(standard, *[1000.0] * 4)
    assert is_enough(standard, *[1000.0] * 5)
    assert not is_enough(standard, 1000.0, 1200.0, 900.0, 1100.0, 1000.0)
    assert is_enough(standard, *[1000.0, 2000.0, 500.0] * 5)


def test_the_suite_gives_the_same_figures_as_this_module() -> None:
    rounds = [round_of(), round_of(1)]
    assert LoadingSuite().figures(rounds) == all_figures(rounds)
