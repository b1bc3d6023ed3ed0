"""Manifest of a run: plan, machine, metrics, progress, and the paired run."""

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
    """Part of a run in a comparison of two revisions, measured in alternate rounds.

    Both sides measured the rounds of one cell and number right after each other.
    """

    side: Literal["baseline", "candidate"]
    """The ``candidate`` is compared with the ``baseline``."""
    partner: str
    """Id of the other run."""
    commit: str
    """The commit whose code the baseline ran."""

    @property
    def words(self) -> str:
        """The part in words, for a reader who has only this run."""
        code = (
            f"{self.side}, of commit {self.commit[:12]}" if self.side == "baseline" else self.side
        )
        return f"{code}, measured in pairs with {self.partner}"

    def is_partner_of(self, own_id: str, other: Pair | None, other_id: str) -> bool:
        """Return whether another run is the partner of this run.

        Args:
            own_id: id of this run.
            other: the other run's part; None for an unpaired run.
            other_id: id of the other run.
        """
        return (
            other is not None
            and {self.side, other.side} == {"baseline", "candidate"}
            and (self.partner, other.partner) == (other_id, own_id)
            and self.commit == other.commit
        )


RUN_ID = re.compile(r"[^\x00-\x20\x7f/\\.][^\x00-\x1f\x7f/\\]{0,199}")
"""A run's id: the name of its directory on disk and in stores, never a path or a hidden file."""


class Manifest(Frozen):
    """Head of a run directory, written when the run begins and again when it ends.

    An interrupted run has `finished` false, and its records stay valid. `counts` and `ended_at`
    date from the last write.
    """

    schema_version: int = Field(default=SCHEMA_VERSION, ge=SCHEMA_VERSION, le=SCHEMA_VERSION)
    run_id: str
    created_at: Moment
    ended_at: Moment | None = None
    finished: bool = False
    plan: Plan
    plan_hash: str
    declaration: Declaration
    """The metrics of the suite, and their display."""
    machine: MachineState
    """The machine that began the run."""
    continued_on: tuple[MachineState, ...] = ()
    """Machines of other hardware that continued the run, for example after a preemption. Each
    record names its machine by `hardware_key`; a cell never mixes rounds of two machines.
    """
    stores: tuple[str, ...] = ()
    """Remote stores of the run, besides its directory."""
    cache_policy: str | None = None
    """Policy and directory of the libraries' caches, such as ``shared: DIRECTORY``; null without a
    policy."""
    duet: Pair | None = None
    """Its part in a comparison of two revisions; null for an unpaired run."""
    counts: dict[Status, Count] = Field(default_factory=dict)
    """Number of records by status that occurred."""
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
