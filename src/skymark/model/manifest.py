"""The manifest of a run: plan, machine, declared metrics and progress."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property

from pydantic import Field

from skymark.model.base import Frozen
from skymark.model.cell import Cell
from skymark.model.effort import Effort
from skymark.model.machine import GitState, Machine
from skymark.model.metric import Declaration
from skymark.model.plan import Plan
from skymark.model.record import SCHEMA_VERSION, Status


class Manifest(Frozen):
    """The head of a run directory. Written when the run begins and again when it ends.

    A run that was interrupted has `finished` false and its records stand; `counts` and `ended_at`
    are those of the last writing.
    """

    schema_version: int = Field(default=SCHEMA_VERSION, ge=SCHEMA_VERSION, le=SCHEMA_VERSION)
    run_id: str
    created_at: datetime
    ended_at: datetime | None = None
    finished: bool = False
    plan: Plan
    plan_hash: str
    declaration: Declaration | None = None
    """What the suite declares of its metrics; null in runs of schema 1 and 2."""
    machine: Machine
    """Where the run was begun."""
    continued_on: tuple[Machine, ...] = ()
    """Machines of other hardware that went on with it, such as one that replaced a preempted one.

    Each record says by `hardware_key` which machine measured it; rounds are never mixed.
    """
    stores: tuple[str, ...] = ()
    """Remote stores that the run was to reach, besides its directory."""
    counts: dict[Status, int] = Field(default_factory=dict)
    """Records by status; a status that did not occur is left out."""
    hourly_price_usd: float | None = None
    price_usd: float | None = None

    @property
    def profile(self) -> str:
        """The profile that was planned from."""
        return self.plan.profile

    @property
    def effort(self) -> Effort:
        """The effort of the run."""
        return self.plan.effort

    @property
    def git(self) -> GitState | None:
        """The commit of skymark that ran."""
        return self.machine.git

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """Every planned cell by id, in order."""
        return {planned.cell.id: planned.cell for planned in self.plan.cells}
