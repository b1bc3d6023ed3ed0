"""The primary metric of each cell over runs of one kind of machine, and where its level changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from skymark.model.base import Frozen
from skymark.model.errors import SkymarkError, UsageError
from skymark.model.metric import Declaration, Metric
from skymark.model.record import Record, Status
from skymark.model.sizes import count_of, percent
from skymark.plain_files import named_by_user, write_whole
from skymark.report.comparison_tables import STYLES, words_of
from skymark.report.html import page_environment
from skymark.report.judgement import NamedCell
from skymark.report.pytest_benchmark import run_at
from skymark.report.text import noun_of, plain, writer
from skymark.rundir.layout import MANIFEST
from skymark.rundir.newest import runs_in as directories_in
from skymark.rundir.reader import Run
from skymark.statistics.change_points import change_points
from skymark.statistics.difference import PRACTICAL, Difference, difference

if TYPE_CHECKING:
    from rich.console import Console


class LevelChange(Frozen):
    """A place at which a cell's level changed."""

    run_id: str
    """The first run of the new level."""
    difference: Difference
    """The new level beside the one before."""

    @property
    def text(self) -> str:
        """The change in per cent, such as ``+12 %``."""
        ratio = self.difference.ratio
        return "from zero" if ratio is None else percent(ratio.value - 1, signed=True)

    def words(self, metric: Metric) -> str:
        """Return the change in words, such as ``-24 % (slower) since RUN-ID``."""
        word = words_of(metric)[self.difference.verdict]
        return f"{self.text} ({word}) since {self.run_id}"


class CellHistory(NamedCell):
    """One cell over the runs that measured it as the newest of them did."""

    run_ids: tuple[str, ...]
    values: tuple[float, ...]
    """The primary metric, one value per run."""
    data: str | None = None
    """The user's name for the real data; null for synthetic data."""
    changes: tuple[LevelChange, ...]
    other_runs: int
    """Runs left out, because the cell's settings or definition were others."""

    @property
    def name(self) -> str:
        """The scenario, and its data where it is real."""
        return series_name(self.label, self.data)


class History(Frozen):
    """Cells over runs."""

    run_ids: tuple[str, ...]
    metric: Metric
    noun: str = "adapter"
    """The word for an adapter in tables."""
    practical: float
    cells: tuple[CellHistory, ...]


def runs_in(places: Iterable[Path]) -> tuple[list[Run], list[str]]:
    """Return the runs that are, or lie in, these directories or files, and the faults of others.

    The oldest run comes first. A baseline of a pair counts only if you name it, because it ran the
    code of an earlier day.

    Raises:
        UsageError: a directory is no run and has none, a named run is unreadable, or all runs of a
            directory are.
    """
    named = list(places)
    found: dict[str, Run] = {}
    problems: list[str] = []
    for directory in run_directories(named):
        try:
            run = run_at(directory)
        except SkymarkError as error:
            if directory in named:
                raise
            problems.append(str(error))
            continue
        if directory in named or not run.is_baseline:
            found.setdefault(run.manifest.run_id, run)
    if not found and problems:
        raise UsageError(f"no run can be read; the first: {problems[0]}")
    return in_order_of_time(found.values()), problems


def run_directories(places: Iterable[Path]) -> Iterator[Path]:
    """Yield the directories of runs in some directories, and all files among the arguments.

    Raises:
        UsageError: a directory is no run and has none.
    """
    for place in places:
        own = [place] if place.is_file() or (place / MANIFEST).is_file() else []
        below = directories_in(place)
        if not own and not below:
            raise UsageError(f"{place} is no run and has none in it; name a directory of runs")
        yield from own or below


def in_order_of_time(runs: Iterable[Run]) -> list[Run]:
    """Return runs, the oldest first."""
    return sorted(runs, key=lambda run: run.manifest.created_at)


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
    found: dict[tuple[str, str | None], list[tuple[str, Record]]] = {}
    metric = newest.declaration.primary_metric
    for run in runs:
        for id, record in run.by_id.items():
            if record.status is Status.OK and metric.name in record.metrics:
                data = record.data.name if record.data else None
                found.setdefault((id, data), []).append((run.manifest.run_id, record))
    return History(
        run_ids=tuple(run.manifest.run_id for run in runs),
        metric=metric,
        noun=noun_of(newest.declaration),
        practical=practical,
        cells=tuple(
            _cell(all_, data, newest.declaration, practical) for (_, data), all_ in found.items()
        ),
    )


def _cell(
    found: Sequence[tuple[str, Record]],
    data: str | None,
    declaration: Declaration,
    practical: float,
) -> CellHistory:
    metric, newest = declaration.primary_metric, found[-1][1]
    same = [(run, record) for run, record in found if record.cell_hash == newest.cell_hash]
    run_ids = tuple(run for run, _ in same)
    values = tuple(record.metrics[metric.name].value for _, record in same)
    places = change_points(values, metric, practical)
    bounds = [0, *places, len(values)]
    return CellHistory(
        cell_id=newest.cell.id,
        label=newest.cell.label,
        adapter=newest.cell.adapter,
        data=data,
        run_ids=run_ids,
        values=values,
        changes=tuple(
            LevelChange(
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


HEIGHT = 40
ROOM = 4
"""Above the highest value and below the lowest, in the units of the height."""
LEAST_SPAN = 2
"""Least height of a line in changes that count, so that noise looks flat."""


def _foot_and_span(values: Sequence[float], practical: float) -> tuple[float, float]:
    """Return the lowest value that a line of these values has room for, and its span."""
    low, high = min(values), max(values)
    span = max(high - low, LEAST_SPAN * practical * max(abs(low), abs(high))) or 1.0
    return (low + high - span) / 2, span


@dataclass(frozen=True)
class TrendLine:
    """A cell's line in a square of 100 by `HEIGHT`."""

    cell: CellHistory
    points: str
    changes: tuple[float, ...]
    """Positions of the changes of its level."""
    description: str
    """The line in words."""
    height: int = HEIGHT


def line_of(cell: CellHistory, history: History) -> TrendLine:
    """Return the line of a cell of a history: runs are equally far apart."""
    write = writer(history.metric)
    foot, span = _foot_and_span(cell.values, history.practical)
    length = max(len(cell.values) - 1, 1)
    height = HEIGHT - 2 * ROOM
    points = (
        f"{100 * place / length:.2f},{HEIGHT - ROOM - height * (value - foot) / span:.2f}"
        for place, value in enumerate(cell.values)
    )
    starts = {change.run_id for change in cell.changes}
    marks = (place for place, run in enumerate(cell.run_ids) if run in starts)
    return TrendLine(
        cell,
        " ".join(points),
        tuple(100 * (place - 0.5) / length for place in marks),
        f"{count_of(len(cell.values), 'run')} from {write(min(cell.values))} to "
        f"{write(max(cell.values))}",
    )


def series_name(label: str, data: str | None) -> str:
    """Return a scenario's label, and its data where it is real."""
    return label if data is None else f"{label} on {data}"


def write_history(history: History, path: Path, home: str | None = None) -> None:
    """Write the page of a history, whole or not at all.

    Args:
        history: of one kind of machine.
        path: the file.
        home: the address of the page of all runs, where there is one.

    Raises:
        SkymarkError: jinja2 is not installed, or the file cannot be written.
    """
    lines = [line_of(cell, history) for cell in history.cells]
    template = page_environment().get_template("history.html.j2")
    page = template.render(history=history, lines=lines, home=home, written=writer(history.metric))
    with named_by_user(path):
        write_whole(path, page.encode(), durable=False)


BARS = "▁▂▃▄▅▆▇█"
LONGEST_LINE = 30


def print_history(history: History, console: Console) -> None:
    """Print a line per cell: its last values as bars, the newest, and where its level changed."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for heading in ("scenario", history.noun):
        table.add_column(heading, overflow="fold")
    for heading in ("runs", "first", "last"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column(plain(history.metric.heading), no_wrap=True)
    table.add_column("changes", overflow="fold")
    write = writer(history.metric)
    for cell in history.cells:
        table.add_row(
            Text(plain(cell.name)),
            Text(plain(cell.adapter)),
            Text(f"{len(cell.values)}"),
            Text(write(cell.values[0])),
            Text(write(cell.values[-1])),
            Text(bars(cell.values[-LONGEST_LINE:], history.practical)),
            Text("\n").join(
                Text(plain(change.words(history.metric)), STYLES[change.difference.verdict])
                for change in cell.changes
            ),
        )
    console.print(table)
    if left := sum(cell.other_runs for cell in history.cells):
        others = f"{count_of(left, 'record')} with other settings or definitions"
        console.print(Text(f"left out: {others}"))
    changed = sum(bool(cell.changes) for cell in history.cells)
    runs = count_of(len(history.run_ids), "run")
    console.print(
        Text(
            f"{runs} · {changed} of {len(history.cells)} series changed  "
            f"(a change counts from {percent(history.practical)} on)"
        )
    )


def bars(values: Sequence[float], practical: float) -> str:
    """Return values as bars, on the scale of a line on the page."""
    foot, span = _foot_and_span(values, practical)
    return "".join(BARS[round((one - foot) / span * (len(BARS) - 1))] for one in values)
