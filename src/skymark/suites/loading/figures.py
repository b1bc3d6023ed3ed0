"""Metrics of loaders: of one round from its outcome, over all rounds from the raw waits."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from skymark.model.machine import GpuUse
from skymark.model.metric import Figure
from skymark.model.record import Round, RoundResult
from skymark.statistics.interval import figure_of, figures_of
from skymark.suites.loading.metrics import METRICS, SPREAD_OVER

if TYPE_CHECKING:
    from skymark.suites.loading.drives.outcome import Outcome

PERCENTILES = {"wait_p50_ns": 50, "wait_p95_ns": 95, "wait_p99_ns": 99}


def round_metrics(outcome: Outcome, import_s: float | None) -> dict[str, float]:
    """Return the metrics of one round, without unknown ones.

    Rates describe the steady stream, and are absent without one. Utilisation is the time in steps,
    or the actual time of sleep, over the time of the measured epochs with their restarts. The
    stream's utilisation is over its own time.

    Args:
        outcome: measurements of the round.
        import_s: time of the worker's import of the adapter's library; None if the worker was
            forked after the import.

    Raises:
        ValueError: the round has no timed region, and thus no rate.
    """
    if outcome.timed_ns <= 0:
        raise ValueError("the round has no timed region, so it has no rate")
    used, elements, rate = outcome.resources, outcome.elements, outcome.samples_per_s
    gpu, sampled = used.gpu, outcome.sampled_elements
    stream = outcome.stream
    found: dict[str, float | None] = {
        "samples_per_s": rate,
        "bytes_per_s": (rate or outcome.epoch_samples_per_s) * outcome.bytes / max(1, elements),
        "epoch_samples_per_s": outcome.epoch_samples_per_s,
        "epoch_restart_ns": fmean(outcome.restart_ns) if outcome.restart_ns else None,
        "utilisation": outcome.busy_ns / outcome.timed_ns if outcome.busy_ns else None,
        "stream_utilisation": stream.busy_ns / stream.ns if stream and outcome.busy_ns else None,
        "step_ns": outcome.busy_ns / outcome.consumed if outcome.busy_ns else None,
        "step_launch_ns": outcome.work.launch_ns_per_step,
        "step_flop_share": outcome.work.flop_share,
        "first_batch_ns": outcome.first_batch_ns,
        "delivery_bytes_per_s": outcome.transfer.moved_bytes_per_s,
        "copy_bytes_per_s": outcome.transfer.copied_bytes_per_s,
        "cpu_s_per_1000_samples": _per_1000(used.cpu_s, sampled),
        "peak_pss_bytes": used.peak_pss_bytes,
        **({} if gpu is None else gpu_metrics(gpu, sampled)),
        "import_s": import_s,
        "open_s": outcome.setup_s,
        "first_epoch_s": outcome.first_epoch_ns / 1e9 or None,
        "first_epoch_cpu_s_per_1000_samples": _per_1000(
            outcome.first_epoch_cpu_s, outcome.first_epoch_elements
        ),
        **{
            f"samples_per_s_over_{epochs}_epochs": outcome.samples_per_s_over(epochs)
            for epochs in SPREAD_OVER
        },
        "elements": elements,
        **outcome.extra,
    }
    return {name: value for name, value in found.items() if value is not None}


def gpu_metrics(gpu: GpuUse, elements: int) -> dict[str, float | None]:
    """Return the joint metrics of a round's GPUs, without missing ones."""
    return {
        "gpu_utilisation": gpu.kernel_share,
        "gpu_clock_mhz": gpu.sm_clock_mhz,
        "gpu_power_w": gpu.power_w,
        "gpu_peak_memory_bytes": gpu.peak_memory_bytes,
        "energy_j_per_1000_samples": _per_1000(gpu.board_energy_j, elements),
    }


def all_figures(rounds: Sequence[RoundResult]) -> dict[str, Figure]:
    """Return the metrics over all rounds of a cell.

    The percentiles are over the pooled waits of the streams, by linear interpolation
    (type 7 of Hyndman, Fan, "Sample quantiles in statistical packages", The American Statistician
    50(4), 1996). Peak memory is the largest of all rounds. The import has a value for each process
    that imported; rounds in a fork of one have none.
    """
    return {
        **figures_of(rounds, METRICS),
        **_percentiles(stream_waits(rounds)),
        **_peak(rounds),
        **_imports(rounds),
    }


def stream_waits(rounds: Sequence[RoundResult]) -> list[float]:
    """Return the waits in ns of all rounds' streams, without warm-ups and restarts."""
    return [
        wait
        for round in rounds
        for wait, counts in zip(round.samples["wait_ns"], round.samples["stream"], strict=True)
        if counts
    ]


def _per_1000(amount: float | None, elements: int) -> float | None:
    return None if amount is None or not elements else 1000 * amount / elements


def _percentiles(waits: Sequence[float]) -> dict[str, Figure]:
    if not waits:
        return {}
    import numpy as np

    found = np.percentile(np.asarray(waits, np.int64), list(PERCENTILES.values()))
    return {
        name: Figure(value=float(value)) for name, value in zip(PERCENTILES, found, strict=True)
    }


def _peak(rounds: Sequence[Round]) -> dict[str, Figure]:
    peaks = [one.metrics["peak_pss_bytes"] for one in rounds if "peak_pss_bytes" in one.metrics]
    return {"peak_pss_bytes": Figure(value=max(peaks))} if len(peaks) == len(rounds) else {}


def _imports(rounds: Sequence[Round]) -> dict[str, Figure]:
    imports = [one.metrics["import_s"] for one in rounds if "import_s" in one.metrics]
    return {"import_s": figure_of(imports, "log")} if imports else {}
