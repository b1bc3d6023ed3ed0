"""Metrics over all rounds of a cell, from their values in each round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skymark.model.metric import Figure, Metric, Scale
from skymark.model.record import Round
from skymark.statistics.interval import estimate


def figures_of(rounds: Sequence[Round], metrics: Iterable[Metric]) -> dict[str, Figure]:
    """Return each metric's mean over rounds with its interval; one that a round lacks is left out.

    Pooled metrics are the suite's own matter and are left out, too. Metrics that only some
    scenarios have, declared or not, are taken from the rounds that have them.
    """
    found: dict[str, Figure] = {}
    declared = {one.name: one for one in metrics}
    names = dict.fromkeys((*declared, *(name for one in rounds for name in one.metrics)))
    for name in names:
        metric = declared.get(name)
        values = [one.metrics[name] for one in rounds if name in one.metrics]
        partial = len(values) < len(rounds) and metric is not None and not metric.own
        if not values or partial or (metric is not None and metric.pooled):
            continue
        found[name] = figure_of(values, metric.scale if metric is not None else "log")
    return found


def figure_of(values: Sequence[float], scale: Scale) -> Figure:
    """Return the mean of values, one per round, with its interval.

    On the log scale only where every value has a logarithm, else on the linear one. What does not
    vary (`exact`) has no interval: its value is the last.
    """
    if scale == "exact":
        return Figure(value=values[-1])
    return estimate(values, "log" if scale == "log" and min(values) > 0 else "linear")
