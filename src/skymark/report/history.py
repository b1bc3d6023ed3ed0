"""The primary metric of each cell over runs of one kind of machine, and where its level changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from skymark.model.base import Frozen
from skymark.model.errors import UsageError
from skymark.model.metric import Declaration, Metric
from skymark.model.record import Record, Status
from skymark.run.reader import Run, open_run
from skymark.statistics.change_points import change_points
from skymark.statistics.difference import PRACTICAL, Difference, difference

MANIFEST = "manifest.json"


class Change(Frozen):
    """A place at which a cell's level changed."""

    run_id: str
    """The first run of the new level."""
    difference: Difference
    """The new level beside the one before."""


class CellHistory(Frozen):
    """One cell over the runs that measured it as the newest of them did."""

    cell_id: str
    label: str
    adapter: str
    run_ids: tuple[str, ...]
    values: tuple[float, ...]
    """Of the primary metric, one per run."""
    changes: tuple[Change, ...]
    other_runs: int
    """Runs left out, because the cell's settings or definition were others."""


class History(Frozen):
    """Cells over runs."""

    run_ids: tuple[str, ...]
    metric: Metric
    practical: float
    cells: tuple[CellHistory, ...]


def runs_in(places: Iterable[Path]) -> list[Run]:
    """Return the runs that are, or lie in, these directories, the oldest first.

    Raises:
        UsageError: a directory is no run and has none.
    """
    found: dict[str, Run] = {}
    for place in places:
        own = [place] if (place / MANIFEST).is_file() else []
        below = sorted(one.parent for one in place.glob(f"*/{MANIFEST}"))
        if not own and not below:
            raise UsageError(f"{place} is no run and has none in it; name a directory of runs")
        for directory in own or below:
            run = open_run(directory)
            found.setdefault(run.manifest.run_id, run)
    return sorted(found.values(), key=lambda run: run.manifest.created_at)


def history_of(runs: Sequence[Run], practical: float = PRACTICAL) -> History:
    """Return each cell's history over runs, in the order of time.

    Args:
        runs: the oldest first; at least one.
        practical: smallest relative difference that counts.

    Raises:
        UsageError: they are of several kinds of machine, or of several suites.
    """
    newest = runs[-1]
    for run in runs:
        if run.manifest.machine.hardware_key != newest.manifest.machine.hardware_key:
            raise UsageError(
                f"{run.manifest.run_id} and {newest.manifest.run_id} are of different machines; "
                "name the runs of one kind only"
            )
        if run.declaration.suite != newest.declaration.suite:
            raise UsageError(
                f"{run.manifest.run_id} and {newest.manifest.run_id} are of different suites; "
                "name the runs of one suite only"
            )
    found: dict[str, list[tuple[str, Record]]] = {}
    metric = newest.declaration.primary_metric
    for run in runs:
        for id, record in run.by_id.items():
            if record.status is Status.OK and metric.name in record.metrics:
                found.setdefault(id, []).append((run.manifest.run_id, record))
    return History(
        run_ids=tuple(run.manifest.run_id for run in runs),
        metric=metric,
        practical=practical,
        cells=tuple(_cell(id, all_, newest.declaration, practical) for id, all_ in found.items()),
    )


def _cell(
    id: str, found: Sequence[tuple[str, Record]], declaration: Declaration, practical: float
) -> CellHistory:
    metric, newest = declaration.primary_metric, found[-1][1]
    same = [(run, record) for run, record in found if record.cell_hash == newest.cell_hash]
    run_ids = tuple(run for run, _ in same)
    values = tuple(record.metrics[metric.name].value for _, record in same)
    places = change_points(values, metric, practical)
    bounds = [0, *places, len(values)]
    return CellHistory(
        cell_id=id,
        label=newest.cell.label,
        adapter=newest.cell.adapter,
        run_ids=run_ids,
        values=values,
        changes=tuple(
            Change(
                run_id=run_ids[place],
                difference=difference(
                    values[place : bounds[number + 2]],
                    values[bounds[number] : place],
                    metric,
                    practical,
                ),
            )
            for number, place in enumerate(places)
        ),
        other_runs=len(found) - len(same),
    )
