"""Progress of a run: done, failed, left out, running and pending cells, by adapter and scenario."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from skymark.model.record import Cell, Status
from skymark.rundir.reader import RecordHead


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
    """A planned cell with its state, and the message of one that failed or was left out."""

    cell: Cell
    state: State
    message: str = ""


def states_of(
    cells: Mapping[str, Cell], records: Mapping[str, RecordHead], running: Collection[str] = ()
) -> list[CellState]:
    """Return the state of each planned cell: pending is what has no record.

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
