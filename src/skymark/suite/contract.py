"""The contract of a suite: its planning side, and the worker's side.

The planning side is light: it imports no numerical library, so that plans and lists are quick. A
suite subclasses `Suite` and is found by an entry point of the group ``skymark.suites``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from pydantic import Field

from skymark.machine.cgroup import Need
from skymark.model.base import Frozen, NonNegative
from skymark.model.data import NamedData
from skymark.model.effort import Effort
from skymark.model.machine import Platform
from skymark.model.metric import Declaration, Figure, Metric
from skymark.model.option import Option
from skymark.model.plan import PlannedCell, Selection
from skymark.model.record import (
    Cause,
    Cell,
    Record,
    Resources,
    RoundResult,
    Setting,
    StabilityWarning,
    Verification,
)
from skymark.model.venv import VenvSpec
from skymark.statistics.interval import figures_of, is_precise_enough
from skymark.statistics.stability import warnings_of


class Ceiling(Frozen):
    """A rate that the machine itself reaches in one part of the work: no pipeline has more."""

    name: str
    rate: NonNegative
    """In the unit of the suite's primary metric."""
    basis: str
    """How it was found, with its numbers."""
    binds: bool = True
    """Whether it can be the limit of what was measured; else it is told for comparison."""


Ceilings = Callable[[Record, Path], Sequence[Ceiling]]
"""Measures the ceilings of a cell's work, given its record and the cache directory."""


@dataclass(frozen=True)
class Tuning:
    """A choice among settings: the least of one metric, where another one suffices."""

    goal: str
    """The metric that has to reach the target; a share, of which more is better."""
    stand_in_goal: str
    """The goal where candidates lack it, and are compared by the primary metric's stand-in."""
    cost: str
    """The metric that is to be as small as can be then."""
    step: str
    """The setting that holds the time of an accelerator's step, in milliseconds."""
    batch: str
    """The setting that holds the elements of a batch."""
    scenario: str
    """What is tuned where the user names nothing."""
    points: Callable[[int], Sequence[Mapping[str, Setting]]]
    """Returns the settings to try on a machine with so many cores."""
    efforts: Callable[[float, str], Sequence[Effort]]
    """Returns the efforts of the rungs, the shortest first, for a step of so many milliseconds and
    the name of one of the suite's efforts."""
    ceilings: str
    """``module:function`` of `Ceilings`."""


Row = dict[str, object]
"""One line of a listing: values are texts, numbers, lists or dictionaries."""


SeenBy = Literal["dali", "jax", "tensorflow", "torch"]
"""Libraries that can be asked for accelerators."""


class DeviceLibrary(Frozen):
    """The library by which an adapter sees accelerators."""

    name: SeenBy
    measured: str
    """Module that is to be measured; where it is not installed, nothing is asked."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the worker, where the user did not set them."""


class Suite(ABC):
    """The planning side of a family of work."""

    name: ClassVar[str]
    """As in profiles and at the beginning of cell ids."""
    title: ClassVar[str]
    """Its work in a few words."""
    runner: ClassVar[str]
    """``module:Class`` of the worker's side, which implements `Runner`."""
    judge: ClassVar[str | None] = None
    """``module:Class`` that gives the verdict on a round, in a process where the adapter's code is
    not, and implements `Judge`; None where the runner's own verdict stands."""
    doubtful: ClassVar[frozenset[str]] = frozenset()
    """Kinds of causes that a machine which stood still brings about as well as a cheat. Once in a
    cell, a round with one does not count, and is measured again in a process of its own."""
    declaration: ClassVar[Declaration]
    """Metrics and how they are shown, without the names of scenarios and adapters."""
    efforts: ClassVar[Mapping[str, Effort]]
    """By name; all suites have ``quick``, ``standard`` and ``rigorous``."""
    shares_machine: ClassVar[bool] = False
    """Whether cells may be measured beside others on one machine: their figures do not vary by it.
    Those that do, such as a throughput, are then of a machine that is shared, and say so."""
    shares_process: ClassVar[bool] = False
    """Whether one worker process serves several groups, one after another: for figures that do not
    vary by it, of libraries that take long to import. Else each group has its own. No process
    measures a cell twice."""
    options: ClassVar[tuple[Option, ...]] = ()
    """Of ``skymark run``, beyond those of every suite."""
    tuning: ClassVar[Tuning | None] = None
    """How settings are chosen for an accelerator's step; None where there is nothing to choose."""
    formats: ClassVar[Mapping[str, str]] = {}
    """Formats of other programs, by name: ``module:Class``, which implements `ForeignFormat`."""

    # What there is

    @abstractmethod
    def scenarios(self) -> list[Row]:
        """Return a line per scenario, the id first."""

    @abstractmethod
    def adapters(self) -> list[Row]:
        """Return a line per adapter, the slug first."""

    def declared(self, cells: Iterable[Cell]) -> Declaration:
        """Return the declaration for a run of cells; override to name scenarios and adapters."""
        del cells
        return self.declaration

    # What is to be run

    @abstractmethod
    def plan(self, selection: Selection, effort: Effort) -> list[PlannedCell]:
        """Return the cells of a selection in order.

        Raises:
            UsageError: a name, setting, option or data source is wrong.
        """

    @abstractmethod
    def venv(self, cell: Cell) -> VenvSpec | None:
        """Return the venv of a cell's adapter; None for the interpreter that skymark runs in.

        Where packages differ with the accelerator, its `variants` say so.
        The worker finds skymark and the suite's own package there by itself; what they import, such
        as pydantic and psutil, must be among the venv's packages.
        """

    def adapter_reference(self, cell: Cell) -> str:
        """Return a cell's adapter as the command line takes it: override where it can be a file."""
        return cell.adapter

    def venvs(self, adapters: Sequence[str] = ()) -> dict[str, VenvSpec]:
        """Return the venvs of adapters by name; of all that install by themselves if none is named.

        Raises:
            UnknownNameError: there is no such adapter.
        """
        del adapters
        return {}

    def device_bytes(self, cell: Cell) -> int | None:
        """Return the memory that a cell's group needs on an accelerator; None if it is unknown."""
        del cell
        return None

    # Asked on the machine that runs the cells

    def need(self, cell: Cell) -> Need:
        """Return the most that a cell's processes need of the machine, as far as it is known."""
        del cell
        return Need()

    def absence(self, cell: Cell) -> Cause | None:
        """Return the cause that keeps a cell from this machine: an absent library, say."""
        del cell
        return None

    def device_library(self, cell: Cell, platform: Platform) -> DeviceLibrary | None:
        """Return the library by which a cell's adapter sees the accelerator of a platform.

        If that sees none, the cell fails. None for an adapter that has no part for it and works on
        the host wherever it runs.
        """
        del cell, platform
        return None

    def data_of(self, cell: Cell) -> str | None:
        """Return the user's name for the real data of a cell; None where the suite has its own."""
        del cell
        return None

    def open_data(self, name: str) -> NamedData | None:
        """Open real data that a user names; None where the suite reads none.

        Raises:
            DataError: it cannot be read.
        """
        del name
        return None

    def unprepared(self, cells: Iterable[Cell], cache: Path) -> list[Cell]:
        """Return the cells whose data is not on disk yet."""
        del cells, cache
        return []

    def fetch(self, cells: Iterable[Cell], cache: Path, announce: Callable[[str], None]) -> None:
        """Bring what cells read from elsewhere onto this disk, before any worker starts.

        Raises:
            DataError: it cannot be read.
        """

    # Repetition and results

    def is_enough(self, cell: Cell, rounds: Sequence[RoundResult], effort: Effort) -> bool:
        """Whether a cell has its rounds: the repetition policy.

        By default rounds go on until the primary metric is precise enough, or the effort is spent.
        """
        del cell
        return is_precise_enough(rounds, self._deciding(rounds), effort)

    def figures(self, rounds: Sequence[RoundResult]) -> dict[str, Figure]:
        """Return the metrics over all rounds: by default their mean, with its interval."""
        return figures_of(rounds, self.declaration.metrics)

    def warnings(
        self, rounds: Sequence[RoundResult], effort: Effort
    ) -> tuple[StabilityWarning, ...]:
        """Return the warnings about the figures of these rounds."""
        return warnings_of(rounds, effort, self._deciding(rounds))

    def _deciding(self, rounds: Sequence[RoundResult]) -> Metric:
        return self.declaration.deciding(rounds[-1].metrics if rounds else ())

    def self_test(self) -> dict[str, str]:
        """Return the cost of the suite's own instrument on this machine: texts by title."""
        return {}


class ForeignFormat(Protocol):
    """Files of another program, which results are written to and read from."""

    def write(self, records: Iterable[Record], directory: Path) -> list[Path]:
        """Write the `ok` records into a directory, and return their files.

        Raises:
            UsageError: a file of that name is there with other content.
        """

    def read(self, file: Path) -> ForeignFigures:
        """Read the figures of one file.

        Raises:
            DataError: it is none of the program's.
        """


class ForeignFigures(Frozen):
    """Figures that another program measured: no record, for nothing proves them."""

    scenario: str
    variant: str
    adapter: str
    axes: dict[str, Setting] = Field(default_factory=dict)
    metrics: dict[str, float]
    """By name; missing is absent."""


class TimedRegion(Protocol):
    """The timed region of a round: between its two ends the engine samples the process tree."""

    def begins(self, exclude: tuple[int, ...] = ()) -> None:
        """Return when sampling has begun.

        Args:
            exclude: processes that serve the benchmark and are not the adapter's.
        """

    def ends(self) -> Resources:
        """Return what the process tree used."""

    def hand_over(self, evidence: Path) -> None:
        """Name the file from which the suite's judge is to judge the round.

        It is read before the runner is asked for anything else.
        """


class Runner(Protocol):
    """The worker's side: the cells of one group, in a process of their own.

    A runner that imports a library for seconds may have two more attributes: ``forks``, true where
    the library allows its process to be forked before it measured anything; and
    ``forked(first=…)``, called at the beginning of each fork, with whether none has measured before
    it. Its process is then kept, and forked for each round, unless the import started a thread or a
    process, or opened a device.
    """

    def __init__(self, cell: Cell, cache: Path, platform: Platform) -> None:
        """Get ready for a group, of which one cell is told: import what all of its cells need.

        The round before may be judged meanwhile, but none is measured. With a platform that has an
        accelerator, the adapter is to use it.
        """

    def versions(self) -> dict[str, str]:
        """Return the versions of the libraries used."""

    def prepare(self, cell: Cell) -> None:
        """Make the cell's data, if it is not there."""

    def measure(self, cell: Cell, round: int, effort: Effort, region: TimedRegion) -> RoundResult:
        """Measure and verify one round of a cell."""

    def close(self) -> None:
        """Free what the adapter holds. Called once, after the last cell."""


class ObservedRound(Frozen):
    """A round's timed region as the engine saw it, from outside of the worker."""

    wall_s: float | None = None
    """From its beginning to its end by the engine's clock; None for a round that had none."""
    resources: Resources = Resources()


class Judge(Protocol):
    """The verdict on rounds, in a process of the adapter's venv that never runs its code."""

    def __init__(self, cell: Cell, cache: Path, platform: Platform) -> None:
        """Get ready for rounds of any cell of the venv, of which one is told."""

    def judge(
        self, cell: Cell, claim: RoundResult, evidence: Path, seen: ObservedRound
    ) -> Verification:
        """Return the verdict on a round.

        Args:
            cell: what was measured.
            claim: what its worker says of the round, its verdict apart.
            evidence: what its runner handed over.
            seen: what the engine saw of it.
        """

    def close(self) -> None:
        """Free what is held. Called once, at the end."""
