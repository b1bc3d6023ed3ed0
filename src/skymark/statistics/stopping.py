"""Stopping rule of a cell's rounds: precise enough, or the effort is spent."""

from __future__ import annotations

from collections.abc import Sequence

from skymark.model.effort import Effort
from skymark.model.metric import Metric
from skymark.model.record import Round
from skymark.statistics.figures import figure_of


def is_precise_enough(rounds: Sequence[Round], metric: Metric, effort: Effort) -> bool:
    """Whether the interval of a metric is narrow enough, or the effort is spent.

    Stopping at the first interval that is narrow enough makes 95 % a little optimistic; the
    effort's `min_rounds` bounds by how much. What does not vary (`exact`) needs one round.
    """
    if len(rounds) >= effort.max_rounds or (rounds and metric.scale == "exact"):
        return True
    if len(rounds) < max(effort.min_rounds, 1):
        return False
    values = [one.metrics[metric.name] for one in rounds if metric.name in one.metrics]
    if len(values) < len(rounds):
        return False
    width = figure_of(values, metric.scale).relative_half_width
    return width is not None and width <= effort.target_relative_interval
