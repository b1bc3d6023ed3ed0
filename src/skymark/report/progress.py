"""Progress of a run: done, failed, left out, running and pending cells, by adapter and scenario."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from skymark.model.errors import UsageError
from skymark.model.manifest import Manifest
from skymark.model.plan import Plan
from skymark.model.record import Cell, Status
from skymark.rundir.layout import MANIFEST
from skymark.rundir.reader import Heads, RecordHead, open_heads
from skymark.rundir.writer_locks import is_being_written

if TYPE_CHECKING:
    from skymark.suite.contract import Suite

Announce = Callable[[str], None]


class State(StrEnum):
    """States of a planned cell, in the order of tables."""

    DONE = "done"
    RUNNING = "running"
    FAILED = "failed"
    LEFT_OUT = "left out"
    PENDING = "pending"


OF_STATUS = {
    Status.OK: State.DONE,
    Status.INVALID: State.FAILED,
    Status.FAILED: State.FAILED,
    Status.TIMEOUT: State.FAILED,
    Status.SKIPPED: State.LEFT_OUT,
    Status.UNSUPPORTED: State.LEFT_OUT,
}


@dataclass(frozen=True)
class CellState:
    """A planned cell with its state, and its message after a failure or a refusal."""

    cell: Cell
    state: State
    message: str = ""


def states_of(
    cells: Mapping[str, Cell], records: Mapping[str, RecordHead], running: Collection[str] = ()
) -> list[CellState]:
    """Return the state of each planned cell; a cell without a record is pending.

    Args:
        cells: of the plan, in its order, by hash; by id where they are of one run.
        records: those that there are, on disk or in a store, by the same of their cell.
        running: ids of cells that are being measured.
    """
    return [_state(cell, records.get(key), running) for key, cell in cells.items()]


def _state(cell: Cell, record: RecordHead | None, running: Collection[str]) -> CellState:
    if record is None:
        return CellState(cell, State.RUNNING if cell.id in running else State.PENDING)
    message = "" if record.cause is None else f"{record.status.value}: {record.cause.message}"
    return CellState(cell, OF_STATUS[record.status], message)


def counted(states: Iterable[CellState], key: Callable[[Cell], str]) -> dict[str, Counter[State]]:
    """Return the numbers of cells by state, for each value of a key in the plan's order."""
    found: dict[str, Counter[State]] = {}
    for one in states:
        found.setdefault(key(one.cell), Counter())[one.state] += 1
    return found


def states_at(
    places: Sequence[str], suite: Suite, plan: Plan | None, announce: Announce
) -> list[CellState]:
    """Return the state of each planned cell over all runs.

    Args:
        places: directories of runs, or addresses of stored ones; together they are one run.
        suite: of all of them.
        plan: the cells that count, wherever their records are; None for the runs' own.
        announce: told of files that cannot be read.

    Raises:
        UsageError: a place is no run of the suite's, or the plan is another suite's.
    """
    alone = len(places) == 1 and plan is None
    planned: dict[str, Cell] = {}
    if plan is not None:
        if plan.suite != suite.name:
            raise UsageError(f"the plan is of the suite {plan.suite}")
        planned = {one.cell.hash: one.cell for one in plan.cells}
    records: dict[str, RecordHead] = {}
    running: set[str] = set()
    for place in places:
        with directory_of(place) as directory:
            run = open_heads(directory)
            require_suite(run.manifest, directory, suite)
            for problem in run.problems:
                announce(problem)
            if alone:  # ids tell its cells apart, and hashes of ten thousand take their time
                return states_of(run.manifest.cells, run.by_id, running_in(run))
            if plan is None:
                planned |= {cell.hash: cell for cell in run.manifest.cells.values()}
            heads = {head.cell_hash: head for head in run.by_id.values()}
            records |= {key: one for key, one in heads.items() if is_better(one, records.get(key))}
            running |= running_in(run)
    return states_of(planned, records, running)


def is_better(record: RecordHead, other: RecordHead | None) -> bool:
    """Whether a record tells more than another of the same pair: a good one, or the later one."""
    if other is None or record.status is Status.OK:
        return True
    return other.status is not Status.OK and record.ended_at > other.ended_at


@contextmanager
def directory_of(place: str) -> Iterator[Path]:
    """Yield the directory of a run; of a stored one, with only its manifest and its records.

    Raises:
        UsageError: there is no run.
        StoreError: the store cannot be read.
    """
    from skymark.store.fetching import fetch
    from skymark.store.kinds import is_address, open_source

    if not is_address(place):
        yield Path(place)
        return
    with closing(open_source(place)) as source, TemporaryDirectory() as directory:
        try:
            fetch(
                source,
                Path(directory),
                only=lambda path: path == MANIFEST or path.startswith("records/"),
            )
        except FileNotFoundError as error:
            raise UsageError(str(error)) from error
        yield Path(directory)


def require_suite(manifest: Manifest, directory: Path, suite: Suite) -> None:
    """Refuse a run of another suite.

    Raises:
        UsageError: it is one.
    """
    if (other := manifest.plan.suite) != suite.name:
        raise UsageError(
            f"{directory} is a run of the suite {other}; `skymark report {directory}` shows it"
        )


def running_in(run: Heads) -> set[str]:
    """Return the cell that this machine measures: of those without a record, the newest log's."""
    if not is_being_written(run.directory):
        return set()
    logs = {
        cell.id: log.stat().st_mtime_ns
        for cell in run.missing
        if (log := run.directory / "logs" / f"{cell.id}.log").is_file()
    }
    return {max(logs, key=lambda cell: logs[cell])} if logs else set()
