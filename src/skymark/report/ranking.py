"""Order of the adapters of one scenario by the primary metric, and which differences are real."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from skymark.model.metric import Declaration, Figure, Metric
from skymark.model.record import Record, Status
from skymark.statistics.difference import Difference, difference, is_shown
from skymark.statistics.places import Place, places_of


@dataclass(frozen=True)
class Row:
    """An `ok` record with its place among the others."""

    record: Record
    figure: Figure
    """The primary metric."""
    to_best: Difference
    to_baseline: Difference | None
    """None where the baseline was not measured."""
    share: float | None
    """How many times as good as the best: below 1 is worse, whichever way the metric counts."""
    multiple: float | None
    """How many times as good as the baseline."""
    place: Place
    tied: bool
    """Whether its group has others, so that some pair's order is not shown."""

    @property
    def leads(self) -> bool:
        """Whether no other is shown to be better."""
        return self.place.first == 1


def ranked(records: Sequence[Record], declaration: Declaration) -> list[Row]:
    """Return the `ok` records of one scenario that have the primary metric, the best first."""
    metric = declaration.primary_metric
    good = [
        (record, record.metrics[metric.name])
        for record in records
        if record.status is Status.OK and metric.name in record.metrics
    ]
    good.sort(key=lambda pair: pair[1].value, reverse=metric.better == "higher")
    if not good:
        return []
    values = [values_of(record, metric) for record, _ in good]
    places = places_of(len(good), lambda one, other: is_shown(values[one], values[other], metric))
    baseline = next(
        (values_of(one, metric) for one, _ in good if one.cell.adapter == declaration.baseline),
        None,
    )
    sizes = Counter(place.group for place in places)
    rows = []
    for (record, figure), own, place in zip(good, values, places, strict=True):
        to_best = difference(own, values[0], metric)
        to_baseline = None if baseline is None else difference(own, baseline, metric)
        rows.append(
            Row(
                record=record,
                figure=figure,
                to_best=to_best,
                to_baseline=to_baseline,
                share=times_as_good(to_best, metric),
                multiple=None if to_baseline is None else times_as_good(to_baseline, metric),
                place=place,
                tied=sizes[place.group] > 1,
            )
        )
    return rows


def not_ranked(records: Sequence[Record], declaration: Declaration) -> list[Record]:
    """Return the `ok` records of one scenario that have the stand-in of the primary metric only."""
    return [
        record
        for record in records
        if record.status is Status.OK
        and declaration.primary not in record.metrics
        and declaration.stand_in in record.metrics
    ]


def why_not_ranked(records: Sequence[Record], declaration: Declaration) -> str:
    """Return why records have the stand-in of the primary metric only, each reason once."""
    name = declaration.stand_in_reason or ""
    return "; ".join(dict.fromkeys(str(record.conditions.get(name, "")) for record in records))


def values_of(record: Record, metric: Metric) -> list[float]:
    """Return the values of a metric that a record has, which are compared with another's.

    They are one per round, but for what is pooled over rounds or does not vary.
    """
    of_rounds = [] if metric.pooled or metric.scale == "exact" else record.values(metric.name)
    return of_rounds or [record.metrics[metric.name].value]


def times_as_good(found: Difference, metric: Metric) -> float | None:
    """Return a ratio turned so that above 1 is better; None where a zero forbids it."""
    if found.ratio is None:
        return None
    ratio = found.ratio.value
    if metric.better == "higher":
        return ratio
    return 1 / ratio if ratio else None
