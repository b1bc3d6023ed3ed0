"""What the engine knows of a suite: how to plan its cells, and how to run them in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from skymark.model.base import Frozen
from skymark.model.cell import Cell
from skymark.model.effort import Effort
from skymark.model.plan import PlannedCell, Selection
from skymark.model.record import Resources, RoundResult


class EnvironmentSpec(Frozen):
    """The Python environment that an adapter's worker runs in.

    `locked` names a compiled file below ``requirements/`` (hashed pins), `declared` one that is
    not compiled; `packages` are further requirement lines, such as ``grain==0.2.17``, which are
    resolved when the environment is made.
    """

    name: str
    locked: str | None = None
    declared: str | None = None
    packages: tuple[str, ...] = ()
    python: str | None = None


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

    def environment(self, adapter: str) -> EnvironmentSpec:
        """Return the environment an adapter needs."""
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
    """The worker's side: one adapter, in its own process and environment."""

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


def load_object(reference: str) -> Any:
    """Return the object that ``module:name`` names."""
    from importlib import import_module

    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)
