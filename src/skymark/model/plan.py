"""Selection, profile and plan: from a request to the ordered cells of a run."""

from __future__ import annotations

from functools import cached_property

from pydantic import Field, JsonValue

from skymark.model.base import Frozen, digest_of
from skymark.model.data import DataTaken
from skymark.model.duration import Span
from skymark.model.effort import Allotment, Effort, Goal
from skymark.model.machine import Platform
from skymark.model.project import ProjectUse
from skymark.model.record import SCHEMA_VERSION, Cause, Cell, Setting, Status


class Selection(Frozen):
    """Scenarios, adapters and settings as the user wrote them."""

    platform: Platform = "cpu"
    """The profile's platform, for estimates of time."""
    scenarios: tuple[str, ...] = ()
    """Empty means the suite's default."""
    size: str | None = None
    """The variant of scenarios named without a variant; None for the suite's default."""
    adapters: tuple[str, ...] = ()
    """Empty means all."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    options: dict[str, JsonValue] = Field(default_factory=dict)
    """Values of the suite's own options, by name; unset options are absent."""


class Profile(Frozen):
    """Profile: a suite, a kind of machine, the work and the effort, in one TOML file."""

    name: str
    """The file's name by default."""
    description: str
    """One line for `skymark list profiles`."""
    suite: str
    """A name from `skymark list suites`."""
    platform: Platform
    """The machine's processor: a CPU alone, or an accelerator too."""
    machine: str | None = None
    """Name, without suffix, of its machine's file in ``benchmarks/sky``; None without a file."""
    scenarios: tuple[str, ...]
    """As after ``--scenarios``."""
    size: str | None = None
    """Default size of scenarios, such as ``small``; None for the suite's default."""
    adapters: tuple[str, ...] = ()
    """As after ``--adapters``; empty for all."""
    effort: str = "quick"
    """An effort of the suite."""
    time: str | None = None
    """Time limit of all rounds, such as ``45m``; None for no limit."""
    goal: Goal | None = None
    """Goal of the time; None for a table."""
    deadline_minutes: int | None = Field(default=None, ge=1)
    """Default of ``--deadline``: longest time of set-up and run on a rented machine."""
    max_cost_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Default of ``--max-cost``, for each rented machine of a run."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    """A table of settings by name."""


class PlannedCell(Frozen):
    """Cell with its process, machine and time, or the reason why it is skipped."""

    cell: Cell
    group: str
    """Cells of one group share a process, one after another."""
    shard_key: str
    """Cells of one key stay on one machine."""
    guess: Span | None = None
    """Estimated seconds of one round; None if unknown."""
    local_files: tuple[str, ...] = ()
    """The user's files and directories that the cell reads; another machine needs them, too."""
    data: DataTaken | None = None
    """Its use of the user's own data; None if it reads none."""
    refusal: tuple[Status, Cause] | None = None
    notes: tuple[str, ...] = ()
    """Assumptions behind its figures, as sentences for the user."""


class Plan(Frozen):
    """Plan of a run: ordered cells to price, send, run, resume and compare."""

    schema_version: int = Field(default=SCHEMA_VERSION, ge=SCHEMA_VERSION, le=SCHEMA_VERSION)
    suite: str
    profile: str
    platform: Platform = "cpu"
    effort: Effort
    allotment: Allotment | None = None
    """Time limit of the rounds on each machine; None for no limit."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    """Settings of the whole run, such as ``workers``."""
    settings_from: dict[str, str] = Field(default_factory=dict)
    """Origin of each setting: ``profile``, ``command line`` or the file of a project."""
    project: ProjectUse | None = None
    """The values that came from a project's own defaults; None for no values."""
    cells: tuple[PlannedCell, ...]

    @cached_property
    def hash(self) -> str:
        """SHA-256 hex digest over cells and effort; a run directory belongs to one plan.

        The time limits of a round and of the run do not count. Cells that ran out of time can run
        again, and an interrupted run can get more time.
        """
        effort = self.effort.model_dump(mode="json", exclude={"cell_timeout_s"})
        return digest_of([sorted(planned.cell.hash for planned in self.cells), effort])

    @property
    def bounds(self) -> Effort:
        """The effort, with the bounds of rounds for the run's time if it has a limit."""
        return self.effort if self.allotment is None else self.allotment.bounds(self.effort)

    @property
    def sentences(self) -> list[str]:
        """The use of a project's defaults, a sentence per scenario on real data, and the notes."""
        own = [] if self.project is None else [self.project.sentence]
        said = [
            f"{planned.cell.scenario}:{planned.cell.variant} on {planned.data.sentence}"
            for planned in self.cells
            if planned.data is not None
        ]
        notes = (note for planned in self.cells for note in planned.notes)
        return list(dict.fromkeys((*own, *said, *notes)))

    @property
    def runnable(self) -> tuple[PlannedCell, ...]:
        """The cells to measure."""
        return tuple(planned for planned in self.cells if planned.refusal is None)
