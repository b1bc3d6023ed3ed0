"""DataComp's table: 38 data sets, each with its own metric, and their average.

The metrics follow ``tasklist.yml`` of DataComp (Gadre et al. 2023), where ``mean_recall@1`` is the
mean of image and text recall.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import fmean

from skymark.model.metric import Figure
from skymark.report.sheet import Reading
from skymark.suites.clip.datasets.choosing import public_sets
from skymark.suites.clip.metrics import SCORE, recall_names

SHEET = "datacomp"
"""Name of the table, and variant of its readings."""
MEAN_RECALL = "recall@1"


def datacomp_sets() -> list[str]:
    """Return the names of DataComp's data sets."""
    return [name for name, one in public_sets().items() if one.datacomp is not None]


def datacomp_readings(readings: Iterable[Reading]) -> list[Reading]:
    """Return DataComp's figures as scores; readings of other data sets or tasks are left out."""
    known = public_sets()
    found = []
    for one in readings:
        public = known.get(one.scenario)
        if public is None or public.datacomp is None or one.variant != public.task:
            continue
        figure = _figure(one, public.datacomp)
        if figure is not None:
            found.append(replace(one, variant=SHEET, metrics={SCORE: figure}))
    order = {name: number for number, name in enumerate(known)}
    return sorted(found, key=lambda one: order[one.scenario])


def _figure(reading: Reading, metric: str) -> Figure | None:
    if metric != MEAN_RECALL:
        return reading.metrics.get(metric)
    both = [one for name in recall_names(1) if (one := reading.metrics.get(name)) is not None]
    if len(both) < 2:
        return None
    value = fmean(one.value for one in both)
    widths = [one.high - one.low for one in both if one.low is not None and one.high is not None]
    if len(widths) < 2:
        return Figure(value=value)
    # Both recalls are of the same images, so their errors may add up.
    half = sum(widths) / 4
    return Figure(value=value, low=value - half, high=value + half)
