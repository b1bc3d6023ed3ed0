"""Verdicts on all metrics of all cells of two runs, corrected for their number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from skymark.model.metric import Metric
from skymark.model.record import Record
from skymark.report.ranking import values_of
from skymark.statistics.contrast import contrast, paired_contrast
from skymark.statistics.correction import confidence_of_next, corrected
from skymark.statistics.difference import (
    Difference,
    Verdict,
    difference,
    paired_difference,
)
from skymark.statistics.pairing import paired_values
from skymark.statistics.power import rounds_to_verdict

Judged = tuple[str, str]
"""A cell's id and a metric's name."""


class Judgement(NamedTuple):
    """What is known of a metric of one cell in two runs."""

    difference: Difference
    more_rounds: int | None
    """Rounds that each run lacks for a verdict; None where there is one, or none is to be had."""


Sides = tuple[Sequence[float], Sequence[float], Metric]
"""A metric's values after and before."""


def judge(
    pairs: Iterable[tuple[Record, Record]],
    metrics: Sequence[Metric],
    practical: float,
    *,
    in_pairs: bool,
) -> dict[Judged, Judgement]:
    """Return the judgement on each metric that both records of a pair have.

    Args:
        pairs: a cell's record before and after.
        metrics: those that are compared.
        practical: smallest relative difference that counts.
        in_pairs: whether each round was measured beside one of the other record.
    """
    sides_of = _sides_in_pairs if in_pairs else _sides
    both = {
        (before.cell.id, metric.name): sides
        for before, after in pairs
        for metric in metrics
        if metric.name in before.metrics and metric.name in after.metrics
        if (sides := sides_of(before, after, metric))[0]
    }
    compared, contrasted = (
        (paired_difference, paired_contrast) if in_pairs else (difference, contrast)
    )
    found = corrected([compared(*sides, practical) for sides in both.values()])
    confidence = confidence_of_next(found)
    judged = {}
    for key, sides, one in zip(both, both.values(), found, strict=True):
        open_question = one.verdict is Verdict.INCONCLUSIVE
        more = (
            rounds_to_verdict(contrasted(*sides, practical), confidence) if open_question else None
        )
        judged[key] = Judgement(one, more)
    return judged


def _sides(before: Record, after: Record, metric: Metric) -> Sides:
    return values_of(after, metric), values_of(before, metric), metric


def _sides_in_pairs(before: Record, after: Record, metric: Metric) -> Sides:
    """Return the values of rounds that are pairs; of what is not one per round, the figure."""
    if metric.pooled or metric.scale == "exact":
        return _sides(before, after, metric)
    return *paired_values(after.rounds, before.rounds, metric.name), metric
