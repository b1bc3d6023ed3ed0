"""Put the adapters of one scenario in order, and say which differences are real."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skymark.model.record import Figures, Record, Status
from skymark.statistics.difference import Difference, Verdict, difference

BASELINE = "numpy"
"""The plain loop that every scenario has."""


@dataclass(frozen=True)
class Row:
    """An `ok` record with its place among the others."""

    record: Record
    figures: Figures
    to_best: Difference
    to_baseline: Difference | None
    """None where the baseline was not measured."""
    leads: bool
    """The fastest, or not shown to be slower than it."""


def ranked(records: Sequence[Record]) -> list[Row]:
    """Return the `ok` records of one scenario, the fastest first."""
    good = [
        (record, record.figures)
        for record in records
        if record.status is Status.OK and record.figures is not None and record.rounds
    ]
    good.sort(key=lambda pair: pair[1].samples_per_s.value, reverse=True)
    if not good:
        return []
    best = rates(good[0][0])
    baseline = next((rates(one) for one, _ in good if one.cell.adapter == BASELINE), None)
    rows = []
    for record, figures in good:
        own = rates(record)
        to_best = difference(own, best)
        rows.append(
            Row(
                record=record,
                figures=figures,
                to_best=to_best,
                to_baseline=None if baseline is None else difference(own, baseline),
                leads=record is good[0][0] or to_best.verdict is not Verdict.SLOWER,
            )
        )
    return rows


def rates(record: Record) -> list[float]:
    """Return a record's samples per second, one per round."""
    return [one.samples_per_s for one in record.rounds]
