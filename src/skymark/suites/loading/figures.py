"""From the raw waits of a cell's rounds to the figures of its record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skymark.model.record import Estimate, Figures, RoundResult, RoundSummary
from skymark.statistics.interval import estimate
from skymark.statistics.stability import warnings_of

if TYPE_CHECKING:
    from skymark.model.effort import Effort

__all__ = ["enough", "figures_of", "measured_waits", "summary_of", "warnings_of"]


def summary_of(round: RoundResult) -> RoundSummary:
    """Return what a record keeps of a round.

    Raises:
        ValueError: the round has no timed region.
    """
    return RoundSummary(
        round=round.round,
        started_at=round.started_at,
        samples_per_s=_per_second(round, round.elements),
        bytes_per_s=_per_second(round, round.bytes),
        first_batch_ns=round.first_batch_ns,
        setup_s=round.setup_s,
        import_s=round.import_s,
        elements=round.elements,
        timed_ns=round.timed_ns,
        utilisation=round.think_ns / round.timed_ns if round.think_ns else None,
        resources=round.resources,
        extra=round.extra,
    )


def figures_of(rounds: Sequence[RoundResult]) -> Figures:
    """Derive a cell's figures from all its rounds.

    The estimates are over rounds. The percentiles are over the pooled waits of the measured
    epochs, by linear interpolation (type 7 of Hyndman, Fan, "Sample quantiles in statistical
    packages", The American Statistician 50(4), 1996). Utilisation is the think time that was
    really slept over the time of the measured epochs. A figure that a round lacks is missing.

    Raises:
        ValueError: there is no round, or one without a timed region.
    """
    summaries = [summary_of(round) for round in rounds]
    p50, p95, p99 = _percentiles(measured_waits(rounds), (50, 95, 99))
    utilisation = [one.utilisation for one in summaries if one.utilisation is not None]
    cpu_s = [one.resources.cpu_s for one in summaries if one.resources.cpu_s is not None]
    peaks = [one.resources.peak_pss_bytes for one in summaries]
    first = [one.first_batch_ns for one in summaries if one.first_batch_ns is not None]
    known_peaks = [peak for peak in peaks if peak is not None]
    complete = len(summaries)
    return Figures(
        samples_per_s=estimate([one.samples_per_s for one in summaries]),
        bytes_per_s=_estimate([one.bytes_per_s for one in summaries]),
        first_batch_ns=_estimate(first),
        wait_p50_ns=p50,
        wait_p95_ns=p95,
        wait_p99_ns=p99,
        utilisation=(estimate(utilisation, "linear") if len(utilisation) == complete else None),
        cpu_s_per_1000_samples=(
            _estimate(
                [1000 * used / one.elements for used, one in zip(cpu_s, summaries, strict=True)]
            )
            if len(cpu_s) == complete
            else None
        ),
        peak_pss_bytes=max(known_peaks) if len(known_peaks) == complete else None,
        extra=_extra(summaries),
    )


def enough(rounds: Sequence[RoundResult | RoundSummary], effort: Effort) -> bool:
    """Whether a cell has its rounds: the interval is narrow enough, or the effort is spent.

    Stopping at the first interval that is narrow enough makes 95 % a little optimistic; the
    effort's `min_rounds` bounds by how much.
    """
    if len(rounds) >= effort.max_rounds:
        return True
    if len(rounds) < max(effort.min_rounds, 1):
        return False
    width = estimate([_per_second(one, one.elements) for one in rounds]).relative_half_width
    return width is not None and width <= effort.target_relative_interval


def measured_waits(rounds: Sequence[RoundResult]) -> list[int]:
    """Return the waits in ns of all rounds, those of the warm-up epochs left out."""
    return [
        wait
        for round in rounds
        for wait, epoch in zip(round.wait_ns, round.epoch, strict=True)
        if epoch >= round.warmup_epochs
    ]


def _per_second(round: RoundResult | RoundSummary, amount: int) -> float:
    if round.timed_ns <= 0:
        raise ValueError(f"round {round.round} has no timed region, so it has no rate")
    return amount / round.timed_ns * 1e9


def _percentiles(values: Sequence[int], ranks: tuple[int, ...]) -> list[float | None]:
    if not values:
        return [None] * len(ranks)
    import numpy as np

    return [float(value) for value in np.percentile(np.asarray(values, np.int64), ranks)]


def _estimate(values: Sequence[float]) -> Estimate:
    """Estimate on the log scale where every value has a logarithm, else on the linear one."""
    return estimate(values, "log" if min(values) > 0 else "linear")


def _extra(summaries: Sequence[RoundSummary]) -> dict[str, Estimate]:
    names = dict.fromkeys(name for one in summaries for name in one.extra)
    return {
        name: _estimate([one.extra[name] for one in summaries if name in one.extra])
        for name in names
    }
