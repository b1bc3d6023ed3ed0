"""Selection, profile and plan: from a request to the ordered cells of a run."""

from __future__ import annotations

from functools import cached_property

from pydantic import Field, JsonValue

from skymark.model.base import Frozen, digest_of
from skymark.model.data import DataTaken
from skymark.model.duration import Span
from skymark.model.effort import Allotment, Effort, Goal
from skymark.model.machine import Platform
from skymark.model.record import SCHEMA_VERSION, Cause, Cell, Setting, Status


class Selection(Frozen):
    """Scenarios, adapters and settings as the user wrote them."""

    platform: Platform = "cpu"
    """The profile's: times are guessed for it."""
    scenarios: tuple[str, ...] = ()
    """Empty means what the suite takes by default."""
    size: str | None = None
    """The variant of scenarios that are named without one; None for the suite's own."""
    adapters: tuple[str, ...] = ()
    """Empty means all."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    options: dict[str, JsonValue] = Field(default_factory=dict)
    """Values of the suite's own options, by name; those that were not given are absent."""


class Profile(Frozen):
    """A suite, a kind of machine, and what to run there with how much effort: one TOML file."""

    name: str
    """The file's, unless it gives another."""
    description: str
    """One line for `skymark list profiles`."""
    suite: str
    """A name from `skymark list suites`."""
    platform: Platform
    """The machine's processor: a CPU alone, or an accelerator too."""
    machine: str | None = None
    """The file of its rented machine in ``benchmarks/sky``, without suffix; None where there is
    none."""
    scenarios: tuple[str, ...]
    """As after ``--scenarios``."""
    size: str | None = None
    """Size of scenarios without one in their name, such as ``small``; None for the suite's own."""
    adapters: tuple[str, ...] = ()
    """As after ``--adapters``; empty for all."""
    effort: str = "quick"
    """An effort of the suite."""
    time: str | None = None
    """The time of all rounds, such as ``45m``; None for as long as the effort takes."""
    goal: Goal | None = None
    """The aim that the time is spent on; None for a table."""
    deadline_minutes: int | None = Field(default=None, ge=1)
    """Longest time of set-up and run on a rented machine, without ``--deadline``."""
    max_cost_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Ceiling for each rented machine of a run, without ``--max-cost``."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    """A table of settings by name."""


class PlannedCell(Frozen):
    """A cell with its process, machine and time, or the reason why it will not be run."""

    cell: Cell
    group: str
    """Cells of one group share a process, one after another."""
    shard_key: str
    """Cells of one key stay on one machine."""
    guess: Span | None = None
    """Seconds that one round takes; None where nothing is known."""
    local_files: tuple[str, ...] = ()
    """Files and directories of the user's own that it reads; another machine must have them."""
    data: DataTaken | None = None
    """What it takes of the user's own data; None where it reads none."""
    refusal: tuple[Status, Cause] | None = None
    notes: tuple[str, ...] = ()
    """Sentences for the user: assumptions that its figures depend on."""


class Plan(Frozen):
    """The ordered cells of a run: priced, sent, run, resumed and compared as they are here."""

    schema_version: int = Field(default=SCHEMA_VERSION, ge=SCHEMA_VERSION, le=SCHEMA_VERSION)
    suite: str
    profile: str
    platform: Platform = "cpu"
    effort: Effort
    allotment: Allotment | None = None
    """The time of its rounds on each machine; None for as long as the effort takes."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    """Settings of the whole run, such as ``workers``."""
    settings_from: dict[str, str] = Field(default_factory=dict)
    """Who set each of them: ``profile`` or ``command line``."""
    cells: tuple[PlannedCell, ...]

    @cached_property
    def hash(self) -> str:
        """SHA-256 hex digest over cells and effort; a run directory belongs to one plan.

        Neither the time limit of a round counts, so that cells which ran out of it can be run
        again, nor the time of the run, so that an interrupted one can be given more.
        """
        effort = self.effort.model_dump(mode="json", exclude={"cell_timeout_s"})
        return digest_of([sorted(planned.cell.hash for planned in self.cells), effort])

    @property
    def bounds(self) -> Effort:
        """The effort, with the rounds that the run's time allows where it has one."""
        return self.effort if self.allotment is None else self.allotment.bounds(self.effort)

    @property
    def sentences(self) -> list[str]:
        """A sentence for each scenario that reads real data, then the notes, each once."""
        said = [
            f"{planned.cell.scenario}:{planned.cell.variant} on {planned.data.sentence}"
            for planned in self.cells
            if planned.data is not None
        ]
        notes = (note for planned in self.cells for note in planned.notes)
        return list(dict.fromkeys((*said, *notes)))

    @property
    def runnable(self) -> tuple[PlannedCell, ...]:
        """The cells that are to be measured."""
        return tuple(planned for planned in self.cells if planned.refusal is None)
