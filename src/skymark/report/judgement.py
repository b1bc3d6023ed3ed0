"""Verdicts on all metrics of all cells of two runs, corrected for their number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from skymark.model.base import Frozen
from skymark.model.metric import Metric
from skymark.model.record import Record
from skymark.report.ranking_table import ByElement, values_of
from skymark.statistics.change_points import CommonChange, beside, common_change
from skymark.statistics.difference import (
    Contrast,
    Difference,
    Verdict,
    agreed,
    confidence_of_next,
    contrast,
    corrected,
    difference,
    difference_of,
    paired_contrast,
    paired_values,
    verdict_of,
)
from skymark.statistics.power import rounds_to_verdict


class NamedCell(Frozen):
    """The names of a cell."""

    cell_id: str
    label: str
    adapter: str


Judged = tuple[str, str]
"""A cell's id and a metric's name."""


class Judgement(NamedTuple):
    """The judgement of one metric of one cell in two runs."""

    difference: Difference
    more_rounds: int | None
    """Rounds that each run lacks for a verdict; None if there is one, or no number of rounds gives
    one."""


class Judgements(NamedTuple):
    """The judgements of all metrics of all cells."""

    each: Mapping[Judged, Judgement]
    common: Mapping[str, CommonChange]
    """Change in common to all libraries, by metric, if verdicts had to hold beside it."""


Sides = tuple[Sequence[float], Sequence[float], Metric]
"""A metric's values after and before."""


def judge(
    pairs: Sequence[tuple[Record, Record]],
    metrics: Sequence[Metric],
    practical: float,
    *,
    in_pairs: bool = False,
    same_machine: bool = True,
    by_element: ByElement | None = None,
    applies: Callable[[Metric, Record, Record], bool] = lambda *_: True,
) -> Judgements:
    """Return the judgement on each metric that both records of a pair have.

    Figures of disturbed rounds are inconclusive.

    Args:
        pairs: a cell's record before and after.
        metrics: those that are compared.
        practical: smallest relative difference that counts.
        in_pairs: whether each round was measured beside one of the other record.
        same_machine: whether nothing is known to differ that changes all cells. Then what the
            libraries did alike whose versions are the same is the machine's doing, and a verdict
            on a cell has to hold beside them, too. Rounds in pairs need no such thing.
        by_element: compares metrics that have outcomes of single elements.
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
    if by_element is not None:
        for before, after in pairs:
            for metric in metrics:
                key = (before.cell.id, metric.name)
                if key in found and metric.outcome is not None:
                    found[key] = by_element.difference(after, before, metric)
    beside: Mapping[Judged, Contrast] = {}
    common: Mapping[str, CommonChange] = {}
    if same_machine and not in_pairs:
        beside, common = _beside_others(own, pairs)
        found |= {key: agreed(found[key], other, both[key][-1]) for key, other in beside.items()}
    disturbed = {before.cell.id for before, after in pairs if before.disturbed or after.disturbed}
    found |= {
        key: one.model_copy(update={"verdict": Verdict.INCONCLUSIVE})
        for key, one in found.items()
        if key[0] in disturbed and key in own
    }
    confirmed = corrected(list(found.values()))
    confidence = confidence_of_next(confirmed)
    judged = {}
    for key, one in zip(found, confirmed, strict=True):
        contrasts = [views[key] for views in (own, beside) if key in views]
        is_open = one.verdict is Verdict.INCONCLUSIVE
        more = _more_rounds(contrasts, both[key][-1], confidence) if is_open and contrasts else None
        judged[key] = Judgement(one, more)
    return Judgements(judged, common)


def _beside_others(
    own: Mapping[Judged, Contrast], pairs: Sequence[tuple[Record, Record]]
) -> tuple[dict[Judged, Contrast], dict[str, CommonChange]]:
    """Return contrasts beside the other libraries if enough is known, and the change in common.

    A library's change is the mean over its cells on a logarithmic scale. Libraries that kept their
    version count.
    """
    adapters = {before.cell.id: before.cell.adapter for before, _ in pairs}
    unchanged = _unchanged(pairs)
    changes: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (cell, metric), seen in own.items():
        if seen.centre is None and adapters[cell] in unchanged:
            changes[metric][adapters[cell]].append(seen.change)
    means = {
        metric: {adapter: fmean(each) for adapter, each in by_adapter.items()}
        for metric, by_adapter in changes.items()
    }
    views: dict[Judged, Contrast] = {}
    for (cell, metric), seen in own.items():
        each = means.get(metric, {})
        others = common_change([each[name] for name in each if name != adapters[cell]])
        if seen.centre is None and others is not None:
            views[cell, metric] = beside(seen, others)
    common = {metric: common_change([*each.values()]) for metric, each in means.items()}
    return views, {metric: change for metric, change in common.items() if change is not None}


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
    """Return the values of paired rounds; a pooled or exact metric has its figure."""
    if metric.pooled or metric.scale == "exact":
        return _sides(before, after, metric)
    return *paired_values(after.rounds, before.rounds, metric.name), metric
