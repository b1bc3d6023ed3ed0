"""Comparison of two runs cell by cell, refused where a difference would mean nothing."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

from pydantic import Field

from skymark.model.base import Frozen
from skymark.model.errors import GateError, UsageError
from skymark.model.manifest import Manifest
from skymark.model.metric import Declaration, Metric
from skymark.model.record import Record, Status
from skymark.model.sizes import percent, some_of
from skymark.report.judgement import Judged, Judgement, NamedCell, judge
from skymark.report.ranking_table import ByElement
from skymark.report.text import duration, noun_of
from skymark.rundir.reader import Run
from skymark.statistics.change_points import CommonChange
from skymark.statistics.difference import (
    PAIRED_PRACTICAL,
    PRACTICAL,
    Difference,
    Verdict,
    pair_count,
)

Across = Literal["hardware", "versions", "cells"]
"""A difference between two runs that the user wants to compare: machine, versions of Python and
libraries, or the cells' own settings and definitions."""

ACROSS: tuple[Across, ...] = ("hardware", "versions", "cells")
NAMED_CELLS = 3


class MetricComparison(Frozen):
    """A metric of one cell in both runs. Missing is null."""

    metric: str
    before: float | None
    after: float | None
    difference: Difference | None
    """After over before, corrected for the number of comparisons; null where a side lacks it."""
    more_rounds: int | None = None
    """Rounds that each run lacks for a verdict with 80 % probability, if the change and the spread
    are as seen; null where there is a verdict, where 1,024 would not do, and after one round."""
    regressed: bool
    """Whether a gate says no: it is gated, and got worse or is not there any more."""


class CellComparison(NamedCell):
    """One cell in both runs."""

    status_before: Status
    status_after: Status
    pairs: int | None = None
    """Rounds with a partner on the other side; null if the runs are no pair."""
    metrics: tuple[MetricComparison, ...]
    """Compared metrics that a side has."""

    @property
    def is_lost(self) -> bool:
        """Whether it was measured before and is not any more."""
        return self.status_before is Status.OK and self.status_after is not Status.OK

    @property
    def regressed(self) -> bool:
        """Whether a gated metric got worse, or the cell was lost."""
        return self.is_lost or any(one.regressed for one in self.metrics)

    @property
    def is_compared(self) -> bool:
        """Whether both runs have a metric in common."""
        return any(one.difference is not None for one in self.metrics)

    @property
    def is_shown_worse(self) -> bool:
        """Whether the rounds show a gated metric to be worse."""
        return any(one.regressed and one.difference is not None for one in self.metrics)


class RunComparison(Frozen):
    """Two runs side by side."""

    before: str
    after: str
    noun: str = "adapter"
    """The word for an adapter in tables."""
    practical: float
    practical_of_elements: float | None = None
    """Of figures that are means over elements; null if the comparison has none."""
    in_pairs: bool = False
    """Whether the two are sides of one measurement in pairs (`skymark run --against`)."""
    metrics: tuple[Metric, ...]
    """Metrics with a verdict."""
    cells: tuple[CellComparison, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    unjudged: dict[str, str] = Field(default_factory=dict)
    """Reasons why cells of the baseline have no verdict, by id: a cell was measured in one run
    only."""
    differs: tuple[str, ...]
    """In what the runs differ though they could be compared, in words."""

    @property
    def margin(self) -> str:
        """The smallest relative difference that counts, in words."""
        own = self.practical_of_elements
        usual = f"a difference counts from {percent(self.practical)} on"
        if own is None or own == self.practical:
            return usual
        others = all(one.outcome is not None for one in self.metrics)
        of_own = f"a difference counts from {percent(own)} on"
        return of_own if others else f"{usual}, of figures over elements from {percent(own)}"

    @property
    def compared(self) -> int:
        """The number of cells with a metric that both runs have."""
        return sum(cell.is_compared for cell in self.cells)

    def count(self, verdict: Verdict) -> int:
        """Return the number of metrics of cells with a verdict."""
        return sum(
            one.difference is not None and one.difference.verdict is verdict
            for cell in self.cells
            for one in cell.metrics
        )


def compare_runs(
    before: Run, after: Run, *, across: Collection[Across] = (), practical: float | None = None
) -> RunComparison:
    """Compare two runs of the same cells.

    Two sides of a pair are compared pair by pair. Their versions may differ, because each revision
    has its own pins.

    Args:
        before: the reference.
        after: what is compared with it.
        across: what may differ between them; by default nothing that changes figures may.
        practical: smallest relative difference that counts; None for 5 %, and for 2 % in pairs of
            rounds or elements.

    Raises:
        UsageError: they have no cell in common, or differ in what `across` does not allow.
    """
    if unknown := set(across) - set(ACROSS):
        raise UsageError(f"cannot compare across {sorted(unknown)}; choose of {', '.join(ACROSS)}")
    ours, theirs = before.manifest, after.manifest
    in_pairs = ours.duet is not None and ours.duet.is_partner_of(
        ours.run_id, theirs.duet, theirs.run_id
    )
    by_element = PAIRED_PRACTICAL if practical is None else practical
    if practical is None:
        practical = PAIRED_PRACTICAL if in_pairs else PRACTICAL
    if practical < 0:
        raise UsageError(f"--practical {practical:g} must not be negative; 0.05 is usual")
    pairs = [(one, after.by_id[id]) for id, one in before.by_id.items() if id in after.by_id]
    if not pairs and "cells" in across:
        pairs = _alike(before, after)
    partners = {one.cell.id: other.cell.id for one, other in pairs}
    if not pairs:
        raise UsageError(
            f"{before.directory} and {after.directory} have no cell in common; "
            "compare runs of the same scenarios, variants and adapters, or add --across cells for "
            "one other adapter or setting in each run"
        )
    found = [
        *(("hardware", text) for text in _hardware(before, after)),
        *(("versions", text) for text in _versions(before, after, pairs)),
        *(("cells", text) for text in _cells(pairs)),
    ]
    allowed = {*across, "versions"} if in_pairs else across
    if refused := [(kind, text) for kind, text in found if kind not in allowed]:
        kinds = " ".join(dict.fromkeys(kind for kind, _ in refused))
        raise UsageError(
            "these runs cannot be compared, because more than the result differs: "
            + "; ".join(text for _, text in refused)
            + f". If that is what you want to compare, add --across {kinds}"
        )
    declaration = after.declaration
    metrics = _compared(declaration, pairs)
    applies = partial(_applies, declaration)
    same_machine = _python(before, after) is None and {kind for kind, _ in found} <= {"versions"}
    judged, common = judge(
        *(pairs, metrics, practical),
        in_pairs=in_pairs,
        same_machine=same_machine,
        by_element=ByElement(declaration, before.directory, after.directory, by_element),
        applies=applies,
    )
    return RunComparison(
        before=before.manifest.run_id,
        after=after.manifest.run_id,
        noun=noun_of(after.declaration),
        practical=practical,
        practical_of_elements=by_element if any(one.outcome for one in metrics) else None,
        in_pairs=in_pairs,
        metrics=metrics,
        cells=tuple(
            _compare(
                *(one, other, [metric for metric in metrics if applies(metric, one, other)]),
                judged,
                in_pairs=in_pairs,
            )
            for one, other in pairs
        ),
        only_before=tuple(id for id in before.by_id if id not in partners),
        only_after=tuple(id for id in after.by_id if id not in partners.values()),
        unjudged=dict(_unjudged(before, after, partners)),
        differs=(
            *(text for _, text in found),
            *_remarks(before, after),
            *_in_common(common, metrics),
        ),
    )


def _alike(before: Run, after: Run) -> list[tuple[Record, Record]]:
    """Return the pairs of a scenario's only cell in each run, such as two checkpoints.

    Cells whose scenario has several in one of the runs are left out.
    """

    def only(run: Run) -> dict[tuple[str, str], Record]:
        by_work: dict[tuple[str, str], list[Record]] = {}
        for record in run.records:
            by_work.setdefault((record.cell.scenario, record.cell.variant), []).append(record)
        return {work: records[0] for work, records in by_work.items() if len(records) == 1}

    ours = only(after)
    return [(one, ours[work]) for work, one in only(before).items() if work in ours]


def _compared(
    declaration: Declaration, pairs: Sequence[tuple[Record, Record]]
) -> tuple[Metric, ...]:
    """Return the metrics by which runs are compared, with the primary one's stand-in if needed."""
    primary, other = declaration.primary_metric, declaration.stand_in_metric
    if other is None or not any(_applies(declaration, other, *pair) for pair in pairs):
        return declaration.compared
    like_primary = {name: getattr(primary, name) for name in ("compared", "gated", "words")}
    return (*declaration.compared, other.model_copy(update=like_primary))


def _applies(declaration: Declaration, metric: Metric, before: Record, after: Record) -> bool:
    """Whether two records are compared by a metric.

    The primary metric and its stand-in are of two kinds. Records of different kinds are
    not compared by either.
    """
    primary, other = declaration.primary, declaration.stand_in
    kinds = {declaration.deciding(one.metrics).name for one in (before, after)}
    return metric.name not in {primary, other} or kinds == {metric.name}


def gate(comparison: RunComparison, *, counts_lost: bool = True) -> None:
    """Say no to a regression, and to cells of which nothing tells that they are no worse.

    Args:
        comparison: of two runs.
        counts_lost: whether a cell that was `ok` before and is not now counts; not where that
            decides an exit status of its own.

    Raises:
        GateError: a gated metric of a cell got worse, a cell of the baseline was lost or cannot be
            judged, or no cell was measured in both. The message names the cells.
    """
    regressed = [
        cell
        for cell in comparison.cells
        if (cell.regressed if counts_lost else cell.is_shown_worse)
    ]
    reasons = []
    if regressed:
        named = (f"{cell.cell_id} ({_losses(cell, comparison.metrics)})" for cell in regressed)
        reasons.append(
            f"{len(regressed)} of {len(comparison.cells)} cells got worse since "
            f"{comparison.before}: {', '.join(named)}"
        )
    if comparison.unjudged:
        named = (f"{id} ({reason})" for id, reason in comparison.unjudged.items())
        reasons.append(
            f"{len(comparison.unjudged)} cells of {comparison.before} cannot be judged: "
            f"{', '.join(named)}; measure them in both runs"
        )
    if not (reasons or comparison.compared or any(cell.is_lost for cell in comparison.cells)):
        reasons.append(
            f"no cell was measured in both {comparison.before} and {comparison.after}; "
            "`skymark report` says why"
        )
    if reasons:
        raise GateError("; ".join(reasons))


def _unjudged(before: Run, after: Run, partners: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the cells of a baseline that cannot be judged, each with the reason."""
    here, there = before.manifest.run_id, after.manifest.run_id
    for id, record in before.by_id.items():
        if id not in partners:
            if record.status is Status.OK:
                yield id, f"no record in {there}"
        elif record.was_not_set_up and after.by_id[partners[id]].status is Status.OK:
            yield id, f"not set up in {here}"
    for cell in before.missing:
        if cell.id in after.by_id and after.by_id[cell.id].status is Status.OK:
            yield cell.id, f"no record in {here}"


def _losses(cell: CellComparison, metrics: Sequence[Metric]) -> str:
    """Return what became of a cell that got worse, such as ``-25 %`` or ``ok → failed``."""
    if cell.is_lost:
        return f"{cell.status_before.value} → {cell.status_after.value}"
    headings = {one.name: f"{one.heading} " if len(metrics) > 1 else "" for one in metrics}
    return ", ".join(headings[one.metric] + _loss(one) for one in cell.metrics if one.regressed)


def _loss(one: MetricComparison) -> str:
    if one.difference is None:
        return "not measured any more"
    ratio = one.difference.ratio
    if ratio is None:
        return f"{one.before:g} → {one.after:g}"
    return percent(ratio.value - 1, signed=True)


def _compare(
    before: Record,
    after: Record,
    metrics: Sequence[Metric],
    judged: Mapping[Judged, Judgement],
    *,
    in_pairs: bool,
) -> CellComparison:
    return CellComparison(
        cell_id=before.cell.id,
        label=before.cell.label,
        adapter=before.cell.adapter,
        status_before=before.status,
        status_after=after.status,
        pairs=pair_count(after.rounds, before.rounds) if in_pairs else None,
        metrics=tuple(
            _compare_metric(before, after, one, judged.get((before.cell.id, one.name)))
            for one in metrics
            if one.name in before.metrics or one.name in after.metrics
        ),
    )


def _compare_metric(
    before: Record, after: Record, metric: Metric, found: Judgement | None
) -> MetricComparison:
    old, new = before.metrics.get(metric.name), after.metrics.get(metric.name)
    worse = old is not None if found is None else found.difference.verdict is Verdict.WORSE
    return MetricComparison(
        metric=metric.name,
        before=None if old is None else old.value,
        after=None if new is None else new.value,
        difference=None if found is None else found.difference,
        more_rounds=None if found is None else found.more_rounds,
        regressed=metric.gated and worse,
    )


def _hardware(before: Run, after: Run) -> Iterator[str]:
    for run in (before, after):
        for machine in run.manifest.continued_on:
            yield f"{run.manifest.run_id} was continued on {machine.name}"
    one, other = before.manifest.machine, after.manifest.machine
    if one.hardware_key == other.hardware_key:
        return
    for name, old, new in _fields(one.hardware, other.hardware):
        yield f"{name} is {old} and {new}"
    for name, old, new in _fields(one.limits, other.limits):
        if name not in {"cpu_throttled_share", "container"}:
            yield f"{name} is {old} and {new}"


def _versions(before: Run, after: Run, pairs: Sequence[tuple[Record, Record]]) -> Iterator[str]:
    if (text := _python(before, after)) is not None:
        yield text
    seen: set[str] = set()
    for one, other in pairs:
        for library in sorted(one.versions.keys() | other.versions.keys()):
            ours, theirs = one.versions.get(library), other.versions.get(library)
            text = f"{library} is {ours or 'unknown'} and {theirs or 'unknown'}"
            # A cell that was not measured on one side has no versions and no difference.
            if one.versions and other.versions and ours != theirs and text not in seen:
                seen.add(text)
                yield text


def _python(before: Run, after: Run) -> str | None:
    """Return the versions of Python in words, where they differ."""
    old, new = before.manifest.machine.python, after.manifest.machine.python
    return None if old == new else f"Python is {old} and {new}"


def _cells(pairs: Sequence[tuple[Record, Record]]) -> Iterator[str]:
    changed = [one.cell.id for one, other in pairs if one.cell_hash != other.cell_hash]
    if changed:
        yield f"the settings or definition of {some_of(changed, NAMED_CELLS)} differ"


EFFORT_WORDS = {
    "name": "effort",
    "min_rounds": "the least number of rounds",
    "max_rounds": "the largest number of rounds",
    "target_relative_interval": "the target of the interval",
    "cell_timeout_s": "the time limit of a round in seconds",
    "limits": "the work of a round",
}


def _remarks(before: Run, after: Run) -> Iterator[str]:
    """Yield differences that do not forbid a comparison."""
    one, other = before.manifest, after.manifest
    for name, old, new in _fields(one.effort, other.effort):
        # A name stands for all other fields.
        if name == "name" or one.effort.name == other.effort.name:
            yield f"{EFFORT_WORDS[name]} is {old} and {new}"
    if one.plan.allotment != other.plan.allotment:
        yield f"time is {_time_of(one)} and {_time_of(other)}"
    if one.machine.system != other.machine.system:
        yield f"system is {one.machine.system} and {other.machine.system}"
    if one.machine.skymark != other.machine.skymark:
        yield f"skymark is {one.machine.skymark} and {other.machine.skymark}"
    for run in (before, after):
        if run.missing:
            yield f"{run.manifest.run_id} lacks {len(run.missing)} planned cells"


def _in_common(common: Mapping[str, CommonChange], metrics: Sequence[Metric]) -> Iterator[str]:
    """Yield what most libraries did alike, where that is shown."""
    headings = {one.name: one.heading for one in metrics}
    for name, one in common.items():
        if one.is_shown:
            change = percent(math.expm1(one.change), 1, signed=True)
            yield (
                f"{headings[name]} of the libraries by {change} alike "
                "(median): the machine, or what they share; see --against"
            )


def _time_of(manifest: Manifest) -> str:
    """Return the time that a run's rounds had, and its goal."""
    allotment = manifest.plan.allotment
    if allotment is None:
        return "as the effort takes"
    return f"{duration(allotment.time_s)} (goal {allotment.goal})"


def _fields(one: Frozen, other: Frozen) -> Iterator[tuple[str, object, object]]:
    for name in type(one).model_fields:
        old, new = getattr(one, name), getattr(other, name)
        if old != new:
            yield name, old, new
