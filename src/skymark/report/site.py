"""Static pages of many runs: an index, each run's report, and histories of kinds of machines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from skymark.machine.fitness import fitness_warnings
from skymark.model.errors import SkymarkError, UsageError
from skymark.model.record import UNSAFE, StabilityWarning, Status
from skymark.plain_files import named_by_user, write_whole
from skymark.report.history import (
    History,
    TrendLine,
    history_of,
    in_order_of_time,
    line_of,
    run_directories,
    series_name,
    write_history,
)
from skymark.report.html import page_environment, render
from skymark.report.verdicts import ScenarioVerdict, question_of, verdicts_of
from skymark.rundir.reader import Run, open_run
from skymark.statistics.difference import PRACTICAL

INDEX = "index.html"
HOME_OF_RUN, HOME_OF_HISTORY = f"../../{INDEX}", f"../{INDEX}"
LONGEST_NAME = 100
MOST_TRENDS = 3
"""Series beside a verdict."""
MOST_CHANGES = 10
"""Changes in the index; the history shows all."""

Kind = tuple[str, str]
"""A suite and the key of a kind of machine: runs of one kind have a history."""


@dataclass(frozen=True)
class IndexLine:
    """A run in the index."""

    run: Run
    page: str
    """The address of its report."""
    history: str | None
    """The address of its kind's history; None where it is the only one."""

    def cells(self, *statuses: str) -> int:
        """Return the number of cells whose record has one of these statuses."""
        return sum(self.run.counts.get(Status(status), 0) for status in statuses)


@dataclass(frozen=True)
class Latest:
    """The newest verdict on a scenario, with the series of its best adapters."""

    verdict: ScenarioVerdict
    run: Run
    page: str
    trends: tuple[tuple[str, TrendLine], ...]
    """Name and line of each best adapter that has several runs."""

    @property
    def warnings(self) -> tuple[StabilityWarning, ...]:
        """The warnings of the run's machine."""
        return fitness_warnings(self.run.manifest.machine)


@dataclass(frozen=True)
class MachineKind:
    """The runs of one suite on one kind of machine."""

    name: str
    question: str
    """The question that the newest run answers."""
    history: str | None
    """The address of its history; None for a single run."""
    latest: tuple[Latest, ...]
    changes: tuple[tuple[str, str], ...]
    """Changes of a series' level in words, each with the report of its first run; the newest
    first."""


@dataclass(frozen=True)
class Site:
    """What was written."""

    index: Path
    runs: int
    histories: int
    problems: tuple[str, ...]
    """Runs that could not be read, and why."""


def write_site(places: Iterable[Path], output: Path, practical: float = PRACTICAL) -> Site:
    """Write the pages of the runs that are, or lie in, some directories.

    The index names each unreadable run. A run counts once, however often it is found. Existing
    pages are replaced; other files stay.

    Args:
        places: directories.
        output: the site's directory; made if absent.
        practical: smallest relative difference that a history counts as a change.

    Raises:
        UsageError: no run can be read, or the site cannot be written.
        SkymarkError: jinja2 is not installed.
    """
    page_environment()
    runs, problems = _readable(places)
    if not runs:
        raise UsageError(f"no run can be read: {'; '.join(problems)}")
    kinds: dict[Kind, list[Run]] = defaultdict(list)
    for run in runs:
        if not run.is_baseline:
            kinds[_kind(run)].append(run)
    histories = {
        kind: f"history/{_name(f'{kind[0]}-{kind[1][:12]}')}.html"
        for kind, same in kinds.items()
        if len(same) > 1
    }
    lines = [
        IndexLine(run, f"runs/{_name(run.manifest.run_id)}/{INDEX}", histories.get(_kind(run)))
        for run in reversed(runs)
    ]
    for line in lines:
        _write(output / line.page, render(line.run, HOME_OF_RUN))
    pages = {line.run.manifest.run_id: line.page for line in lines}
    machines = []
    for kind, same in kinds.items():
        history, address = history_of(same, practical), histories.get(kind)
        if address is not None:
            write_history(history, output / address, HOME_OF_HISTORY)
        machines.append(_machine(same, history, address, pages))
    template = page_environment().get_template("site.html.j2")
    index = template.render(machines=machines[::-1], lines=lines, problems=problems)
    _write(output / INDEX, index)
    return Site(output / INDEX, len(runs), len(histories), tuple(problems))


def _readable(places: Iterable[Path]) -> tuple[list[Run], list[str]]:
    """Return the readable runs, the oldest first, and the problems of all unreadable runs."""
    found: dict[str, Run] = {}
    problems: list[str] = []
    for directory in run_directories(places):
        try:
            run = open_run(directory)
        except SkymarkError as error:
            problems.append(f"{directory.name}: {error}")
        else:
            found.setdefault(run.manifest.run_id, run)
    return in_order_of_time(found.values()), problems


def _kind(run: Run) -> Kind:
    return run.declaration.suite, run.manifest.machine.hardware_key


def _name(text: str) -> str:
    """Return a text as the name of a file and as a part of an address; no two have one."""
    name = UNSAFE.sub("_", text)
    if name == text and len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]}-{sha256(text.encode()).hexdigest()[:12]}"


def _machine(
    runs: Sequence[Run], history: History, address: str | None, pages: Mapping[str, str]
) -> MachineKind:
    """Return the newest verdict on each scenario, and the changes over runs."""
    newest = runs[-1]
    trends = defaultdict(list)
    for cell in history.cells:
        if len(cell.values) > 1:
            trends[cell.name].append(line_of(cell, history))
    latest: dict[str, Latest] = {}
    for run in reversed(runs):
        data = {one.cell.label: one.data.name for one in run.records if one.data}
        for verdict in verdicts_of(run):
            name = series_name(verdict.label, data.get(verdict.label))
            lines = tuple(
                (run.declaration.adapter_name(line.cell.adapter), line)
                for line in trends[name]
                if line.cell.adapter in verdict.best
            )
            latest.setdefault(
                name, Latest(verdict, run, pages[run.manifest.run_id], lines[:MOST_TRENDS])
            )
    order = {id: at for at, id in enumerate(history.run_ids)}
    changes = sorted(
        ((cell, change) for cell in history.cells for change in cell.changes),
        key=lambda pair: order[pair[1].run_id],
        reverse=True,
    )
    return MachineKind(
        name=newest.manifest.machine.name,
        question=question_of(newest),
        history=address,
        latest=tuple(latest.values()),
        changes=tuple(
            (
                (
                    f"{newest.declaration.adapter_name(cell.adapter)} on {cell.name}: "
                    f"{history.metric.heading} {change.words(history.metric)}"
                ),
                pages[change.run_id],
            )
            for cell, change in changes[:MOST_CHANGES]
        ),
    )


def _write(path: Path, page: str) -> None:
    with named_by_user(path, "a directory"):
        write_whole(path, page.encode(), durable=False)
