"""What the engine knows of a suite: how to plan its cells, and how to run them in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from skymark.model.cell import Cell
from skymark.model.effort import Effort
from skymark.model.plan import PlannedCell, Selection
from skymark.model.record import Resources, RoundResult
from skymark.model.venv import VenvSpec


class Suite(Protocol):
    """The planning side. Light: it imports no numerical library."""

    name: str
    runner: str
    """``module:Class`` of the worker's side, which implements `Runner`."""

    def plan(self, selection: Selection) -> list[PlannedCell]:
        """Return the cells of a selection in order.

        Raises:
            UsageError: a name, setting or data source is wrong.
        """
        ...

    def venv(self, adapter: str) -> VenvSpec:
        """Return the venv an adapter needs."""
        ...

    def group(self, cell: Cell) -> str:
        """Return what a cell shares its process with: cells of one group run in one, in turn."""
        ...

    def unprepared(self, cells: Iterable[Cell], cache: Path) -> list[Cell]:
        """Return the cells whose data is not on disk yet."""
        ...

    def fetch(self, cells: Iterable[Cell], cache: Path, announce: Callable[[str], None]) -> None:
        """Bring what cells read from elsewhere onto this disk, before any worker starts.

        Raises:
            DataError: it cannot be read.
        """
        ...


class Runner(Protocol):
    """The worker's side: one adapter, in its own process and venv."""

    def __init__(self, adapter: str, cache: Path) -> None: ...

    def versions(self) -> dict[str, str]:
        """Return the versions of the libraries used."""
        ...

    def prepare(self, cell: Cell) -> None:
        """Make the cell's data, if it is not there."""
        ...

    def measure(
        self,
        cell: Cell,
        round: int,
        effort: Effort,
        timed_region_begins: Callable[[tuple[int, ...]], None],
        timed_region_ends: Callable[[], Resources],
    ) -> RoundResult:
        """Measure and verify one round of a cell."""
        ...

    def close(self) -> None:
        """Free what the adapter holds. Called once, after the last cell."""
        ...
