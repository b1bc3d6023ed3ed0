"""Verdicts on all metrics of all cells of two runs, corrected for their number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from skymark.model.metric import Metric
from skymark.model.record import Record
from skymark.report.library_changes import Judged, LibraryChanges
from skymark.report.ranking import values_of
from skymark.statistics.common_change import CommonChange
from skymark.statistics.contrast import Contrast, contrast, paired_contrast
from skymark.statistics.correction import confidence_of_next, corrected
from skymark.statistics.difference import (
    Difference,
    Verdict,
    agreed,
    difference,
    difference_of,
    verdict_of,
)
from skymark.statistics.pairing import paired_values
from skymark.statistics.power import rounds_to_verdict


class Judgement(NamedTuple):
    """What is known of a metric of one cell in two runs."""

    difference: Difference
    more_rounds: int | None
    """Rounds that each run lacks for a verdict; None where there is one, or none is to be had."""


class Judgements(NamedTuple):
    """What is known of all metrics of all cells."""

    each: Mapping[Judged, Judgement]
    common: Mapping[str, CommonChange]
    """What the libraries did alike, by metric, where verdicts had to hold beside that, too."""


Sides = tuple[Sequence[float], Sequence[float], Metric]
"""A metric's values after and before."""


def judge(
    pairs: Sequence[tuple[Record, Record]],
    metrics: Sequence[Metric],
    practical: float,
    *,
    in_pairs: bool = False,
    same_machine: bool = True,
    applies: Callable[[Metric, Record, Record], bool] = lambda *_: True,
) -> Judgements:
    """Return the judgement on each metric that both records of a pair have.

    Args:
        pairs: a cell's record before and after.
        metrics: those that are compared.
        practical: smallest relative difference that counts.
        in_pairs: whether each round was measured beside one of the other record.
        same_machine: whether nothing is known to differ that changes all cells. Then what the
            libraries did alike whose versions are the same is the machine's doing, and a verdict
            on a cell has to hold beside them, too. Rounds in pairs need no such thing.
        applies: whether a metric is compared in a pair of records.
    """
    sides_of = _sides_in_pairs if in_pairs else _sides
    both = {
        (before.cell.id, metric.name): sides
        for before, after in pairs
        for metric in metrics
        if metric.name in before.metrics and metric.name in after.metrics
        if applies(metric, before, after)
        if (sides := sides_of(before, after, metric))[0]
    }
    contrasted = paired_contrast if in_pairs else contrast
    own: dict[Judged, Contrast] = {
        key: contrasted(*sides, practical)
        for key, sides in both.items()
        if sides[-1].scale != "exact"
    }
    found = {
        key: difference_of(own[key], metric) if key in own else difference(after, before, metric)
        for key, (after, before, metric) in both.items()
    }
    beside: Mapping[Judged, Contrast] = {}
    common: Mapping[str, CommonChange] = {}
    if same_machine and not in_pairs:
        beside, common = _beside_others(own, pairs)
        found |= {key: agreed(found[key], other, both[key][-1]) for key, other in beside.items()}
    confirmed = corrected(list(found.values()))
    confidence = confidence_of_next(confirmed)
    judged = {}
    for key, one in zip(found, confirmed, strict=True):
        contrasts = [views[key] for views in (own, beside) if key in views]
        is_open = one.verdict is Verdict.INCONCLUSIVE
        more = _more_rounds(contrasts, both[key][-1], confidence) if is_open else None
        judged[key] = Judgement(one, more)
    return Judgements(judged, common)


def _beside_others(
    own: Mapping[Judged, Contrast], pairs: Sequence[tuple[Record, Record]]
) -> tuple[dict[Judged, Contrast], dict[str, CommonChange]]:
    """Return contrasts beside the other libraries where enough is known, and what all did alike."""
    adapters = {before.cell.id: before.cell.adapter for before, _ in pairs}
    changes = LibraryChanges(own, adapters, _unchanged(pairs))
    found = {key: changes.beside_others(key, one) for key, one in own.items()}
    return {key: one for key, one in found.items() if one is not None}, changes.in_common()


def _unchanged(pairs: Iterable[tuple[Record, Record]]) -> set[str]:
    """Return the adapters whose versions are known and the same, in every cell with figures."""
    measured = [(one, other) for one, other in pairs if one.metrics and other.metrics]
    changed = {
        one.cell.adapter
        for one, other in measured
        if not one.versions or one.versions != other.versions
    }
    return {one.cell.adapter for one, _ in measured} - changed


def _more_rounds(contrasts: Sequence[Contrast], metric: Metric, confidence: float) -> int | None:
    """Return the rounds after which all contrasts have a verdict; None where they never agree."""
    verdicts = {verdict_of(one, metric) for one in contrasts}
    if len(verdicts) > 1 and Verdict.INCONCLUSIVE not in verdicts:
        return None
    lacking = [rounds_to_verdict(one, confidence) for one in contrasts]
    known = [one for one in lacking if one is not None]
    return max(known) if known and len(known) == len(lacking) else None


def _sides(before: Record, after: Record, metric: Metric) -> Sides:
    return values_of(after, metric), values_of(before, metric), metric


def _sides_in_pairs(before: Record, after: Record, metric: Metric) -> Sides:
    """Return the values of rounds that are pairs; of what is not one per round, the figure."""
    if metric.pooled or metric.scale == "exact":
        return _sides(before, after, metric)
    return *paired_values(after.rounds, before.rounds, metric.name), metric
