"""What a run is asked to do, and the ordered cells that come of it."""

from __future__ import annotations

from functools import cached_property

from pydantic import Field

from skymark.model.base import Frozen, digest_of
from skymark.model.cell import Cell, Setting
from skymark.model.effort import Effort
from skymark.model.record import Cause, Status


class Selection(Frozen):
    """Which scenarios and adapters, with which settings. Names as the user wrote them."""

    scenarios: tuple[str, ...] = ()
    """``CV-1``, ``CV-1:medium`` or ``tier-1``; empty means all of tier 1."""
    adapters: tuple[str, ...] = ()
    """Slugs, display names, ``slug@version`` or ``file.py:Class``; empty means all."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    axes: dict[str, tuple[Setting, ...]] = Field(default_factory=dict)
    """Restricts or replaces the values of scenario axes, such as ``{"depth": (10,)}``."""
    seed: int = 7
    data: str | None = None
    """A folder, tar shards, Parquet or ``hf://owner/name`` in place of synthetic data."""


class PlannedCell(Frozen):
    """A cell, with the reason if it will not be run."""

    cell: Cell
    refusal: tuple[Status, Cause] | None = None


class Plan(Frozen):
    """The ordered cells of a run."""

    profile: str
    effort: Effort
    settings: dict[str, Setting] = Field(default_factory=dict)
    """Settings of the whole run, such as ``workers``."""
    settings_from: dict[str, str] = Field(default_factory=dict)
    """Who set each of them: ``profile`` or ``command line``."""
    cells: tuple[PlannedCell, ...]

    @cached_property
    def hash(self) -> str:
        """SHA-256 hex digest over cells and effort; a run directory belongs to one plan.

        The time limit does not count, so that cells which ran out of time can be run again.
        """
        effort = self.effort.model_dump(mode="json", exclude={"cell_timeout_s"})
        return digest_of([sorted(planned.cell.hash for planned in self.cells), effort])

    @property
    def runnable(self) -> tuple[Cell, ...]:
        """The cells that are to be measured."""
        return tuple(planned.cell for planned in self.cells if planned.refusal is None)

    def groups(self) -> dict[str, tuple[Cell, ...]]:
        """Return the cells to measure by adapter: those share one process per round."""
        grouped: dict[str, list[Cell]] = {}
        for cell in self.runnable:
            grouped.setdefault(cell.adapter, []).append(cell)
        return {adapter: tuple(cells) for adapter, cells in grouped.items()}


class Profile(Frozen):
    """A kind of machine, and what to run there with how much effort. One TOML file each."""

    name: str
    description: str
    platform: str
    """``cpu``, ``gpu`` or ``tpu``: what the machine must have."""
    scenarios: tuple[str, ...]
    adapters: tuple[str, ...] = ()
    effort: str = "quick"
    settings: dict[str, Setting] = Field(default_factory=dict)
