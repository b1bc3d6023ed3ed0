"""The manifest of a run: plan, machine, metrics, progress, and the run it was paired with."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Literal, Self

from pydantic import Field, model_validator

from skymark.model.base import Count, Frozen, Moment, NonNegative
from skymark.model.effort import Effort
from skymark.model.machine import GitState, MachineState
from skymark.model.metric import Declaration
from skymark.model.plan import Plan
from skymark.model.record import FILE_NAME, SCHEMA_VERSION, Cell, Status


class Pair(Frozen):
    """One run's part in a pair of revisions, measured a round of each in turn.

    Rounds of one number, of one cell, were measured one right after the other.
    """

    side: Literal["baseline", "candidate"]
    """The ``baseline`` is what the ``candidate`` is compared with."""
    partner: str
    """Id of the other run."""
    commit: str
    """The commit whose code the baseline ran."""

    @property
    def words(self) -> str:
        """The part in words, for a reader of this run alone."""
        code = (
            f"{self.side}, of commit {self.commit[:12]}" if self.side == "baseline" else self.side
        )
        return f"{code}, measured in pairs with {self.partner}"

    def is_partner_of(self, own_id: str, other: Pair | None, other_id: str) -> bool:
        """Whether another run is the other one of the pair.

        Args:
            own_id: id of this run.
            other: the other run's part; None for a run that has none.
            other_id: id of the other run.
        """
        return (
            other is not None
            and {self.side, other.side} == {"baseline", "candidate"}
            and (self.partner, other.partner) == (other_id, own_id)
            and self.commit == other.commit
        )


RUN_ID = re.compile(r"[^\x00-\x20\x7f/\\.][^\x00-\x1f\x7f/\\]{0,199}")
"""A run's id: the name of its directory here and in stores, so never a path or a hidden file."""


class Manifest(Frozen):
    """The head of a run directory. Written when the run begins and again when it ends.

    A run that was interrupted has `finished` false and its records stand; `counts` and `ended_at`
    are those of the last writing.
    """

    schema_version: int = Field(default=SCHEMA_VERSION, ge=SCHEMA_VERSION, le=SCHEMA_VERSION)
    run_id: str
    created_at: Moment
    ended_at: Moment | None = None
    finished: bool = False
    plan: Plan
    plan_hash: str
    declaration: Declaration
    """The metrics of the suite, and how they are shown."""
    machine: MachineState
    """Where the run was begun."""
    continued_on: tuple[MachineState, ...] = ()
    """Machines of other hardware that went on with it, such as one that replaced a preempted one.

    Each record says by `hardware_key` which machine measured it; rounds are never mixed.
    """
    stores: tuple[str, ...] = ()
    """Remote stores that the run was to reach, besides its directory."""
    cache_policy: str | None = None
    """Where libraries kept their caches, such as ``shared: DIRECTORY``; null where nobody said."""
    duet: Pair | None = None
    """Its part in a pair of revisions measured in turn; null for a run by itself."""
    counts: dict[Status, Count] = Field(default_factory=dict)
    """Records by status; a status that did not occur is left out."""
    hourly_price_usd: NonNegative | None = None
    price_usd: NonNegative | None = None

    @model_validator(mode="after")
    def _names_files_by_plain_names(self) -> Self:
        if not RUN_ID.fullmatch(self.run_id):
            raise ValueError(f"run_id {self.run_id[:80]!r} is no name of a directory")
        if wrong := next((id for id in self.cells if not FILE_NAME.fullmatch(id)), None):
            raise ValueError(f"the cell {wrong[:80]!r} has no name of a file")
        return self

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
