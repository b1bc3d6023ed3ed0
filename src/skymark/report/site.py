"""Static pages of many runs: an index, each run's report, and histories of kinds of machines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from skymark.model.errors import SkymarkError, UsageError
from skymark.model.record import UNSAFE, Status
from skymark.plain_files import named_by_user, write_whole
from skymark.report.history import history_of, in_order_of_time, run_directories, write_history
from skymark.report.html import page_environment, render
from skymark.rundir.reader import Run, open_run
from skymark.statistics.difference import PRACTICAL

INDEX = "index.html"
HOME_OF_RUN, HOME_OF_HISTORY = f"../../{INDEX}", f"../{INDEX}"
LONGEST_NAME = 100

Kind = tuple[str, str]
"""A suite and the key of a kind of machine: runs of one kind have a history."""


@dataclass(frozen=True)
class Line:
    """A run in the index."""

    run: Run
    page: str
    """The address of its report."""
    history: str | None
    """The address of its kind's history; None where it is the only one."""

    @property
    def ok(self) -> int:
        """The number of cells that were measured and verified."""
        return self.run.counts.get(Status.OK, 0)

    @property
    def invalid(self) -> int:
        """The number of cells that the oracle refused."""
        return self.run.counts.get(Status.INVALID, 0)

    @property
    def failed(self) -> int:
        """The number of cells that failed or ran out of time."""
        counts = self.run.counts
        return counts.get(Status.FAILED, 0) + counts.get(Status.TIMEOUT, 0)

    @property
    def left_out(self) -> int:
        """The number of planned cells that nothing was measured of: skipped, without a record."""
        return self.run.counts.get(Status.SKIPPED, 0) + len(self.run.missing)


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

    A run that cannot be read is named in the index, and the others stand. A run is taken once,
    however often it is found. Pages that are there are replaced; no others are removed.

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
        Line(run, f"runs/{_name(run.manifest.run_id)}/{INDEX}", histories.get(_kind(run)))
        for run in reversed(runs)
    ]
    for line in lines:
        _write(output / line.page, render(line.run, HOME_OF_RUN))
    for kind, address in histories.items():
        write_history(history_of(kinds[kind], practical), output / address, HOME_OF_HISTORY)
    _write(output / INDEX, _index(lines, problems))
    return Site(output / INDEX, len(runs), len(histories), tuple(problems))


def _readable(places: Iterable[Path]) -> tuple[list[Run], list[str]]:
    """Return the runs, the oldest first, and what is wrong with the others."""
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


def _index(lines: Sequence[Line], problems: Sequence[str]) -> str:
    template = page_environment().get_template("site.html.j2")
    return template.render(lines=lines, problems=problems)


def _write(path: Path, page: str) -> None:
    with named_by_user(path, "a directory"):
        write_whole(path, page.encode(), durable=False)
