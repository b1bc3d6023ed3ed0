"""Pairs of rounds of a cell on two sides, and the rule by which there are enough of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skymark.model.effort import Effort
from skymark.model.metric import Metric
from skymark.model.record import Round, Stop
from skymark.statistics.contrast import paired_contrast
from skymark.statistics.difference import PAIRED_PRACTICAL


def paired_values(
    candidate: Sequence[Round], baseline: Sequence[Round], name: str
) -> tuple[list[float], list[float]]:
    """Return a metric's values of two sides, pair by pair.

    Rounds of one number are a pair. One that lacks its other, because a run was killed between the
    two, is left out, as is a pair of which a round lacks the metric.
    """
    ours, theirs = _by_number(candidate, name), _by_number(baseline, name)
    numbers = [number for number in ours if number in theirs]
    return [ours[number] for number in numbers], [theirs[number] for number in numbers]


def pair_count(candidate: Sequence[Round], baseline: Sequence[Round]) -> int:
    """Return the number of pairs of two sides."""
    return len({one.round for one in candidate} & {one.round for one in baseline})


def enough_pairs(
    candidate: Sequence[Round], baseline: Sequence[Round], metric: Metric, effort: Effort
) -> Stop | None:
    """Return the rule that ends the pairs of a cell; None where another one is to be measured.

    They go on from the effort's least rounds until the interval of the ratio is as narrow as the
    effort asks of a figure, or there are the effort's most.
    """
    ours, theirs = paired_values(candidate, baseline, metric.name)
    count = pair_count(candidate, baseline)
    if count >= effort.max_rounds:
        return Stop.ROUNDS
    if count < max(effort.min_rounds, 1) or len(ours) < count:
        return None
    found = paired_contrast(ours, theirs, metric, PAIRED_PRACTICAL)
    half = found.half_width()
    scale = 1.0 if found.centre is None else abs(found.centre)
    is_narrow = half is not None and half <= effort.target_relative_interval * scale
    return Stop.INTERVAL if is_narrow else None


def _by_number(rounds: Sequence[Round], name: str) -> Mapping[int, float]:
    return {one.round: one.metrics[name] for one in rounds if name in one.metrics}
