"""Contract of a suite: the planning side and the worker side.

The planning side imports no numerical library, so plans and lists are quick. A suite subclasses
`Suite` and registers an entry point of the group ``skymark.suites``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Literal, Protocol

from pydantic import Field

from skymark.machine.cgroup import Need
from skymark.model.base import Frozen
from skymark.model.data import NamedData
from skymark.model.effort import Effort
from skymark.model.machine import Platform
from skymark.model.metric import Declaration, Figure, Metric
from skymark.model.option import Option
from skymark.model.plan import PlannedCell, Selection
from skymark.model.record import (
    Cause,
    Ceiling,
    Cell,
    Record,
    Resources,
    RoundResult,
    Setting,
    StabilityWarning,
    Verification,
)
from skymark.model.requests import Work
from skymark.model.venv import VenvSpec
from skymark.statistics.interval import figures_of, is_precise_enough
from skymark.statistics.stability import warnings_of


class CeilingRequest(Frozen):
    """Request for the ceilings of a cell's scenario on this machine."""

    cell: Cell
    cache: Path
    """Directory of the data."""


CeilingsOf = Callable[[Record, Path], Sequence[Ceiling]]
"""Measures the ceilings of a cell's work, given its record and the cache directory."""


LimitsOf = Callable[[Record, Path], Sequence[str]]
"""Looks at a cell's work once more, and returns sentences on what limits it, given its record and
the cache directory."""

Grid = Mapping[str, Sequence[Setting]]
"""Values to try, by setting."""


@dataclass(frozen=True)
class MeasuredStep:
    """A training step whose time a suite can measure."""

    network: str
    """The setting that names it."""
    metric: str
    """The metric that has its time, in nanoseconds."""
    adapter: str
    """The adapter whose batches it consumes."""


@dataclass(frozen=True)
class Tuning:
    """Choice among settings: the least cost among settings that reach a goal."""

    goal: str
    """The metric that has to reach the target: a share, more is better."""
    cost: str
    """The metric to minimise once the goal is reached."""
    step: str
    """The setting that holds the time of an accelerator's step, in milliseconds."""
    batch: str
    """The setting that holds the elements of a batch."""
    scenario: str
    """Scenario to tune if the user names none."""
    points: Callable[[Work, Grid, int], Sequence[Mapping[str, Setting]]]
    """Returns the settings to try, given the request, the user's own values to try by setting, and
    the machine's number of cores. A setting that the request has is not among them."""
    effort: Callable[[str, int, float, float], Effort]
    """Returns the effort of a stage, given its name, the rounds of each candidate, the seconds of
    each round, and the milliseconds of a step."""
    stand_in_goal: str | None = None
    """The goal for candidates that lack it and are compared by the primary metric's stand-in."""
    ceilings: str | None = None
    """``module:function`` of `CeilingsOf`; None where the machine's own rates are unknown."""
    limits: str | None = None
    """``module:function`` of `LimitsOf`; None for none."""
    loader: re.Pattern[str] | None = None
    """Form of the user's own loader in place of data; None if the suite tunes none."""
    profile: str = ""
    """The profile for such a loader."""
    data: str | None = None
    """The setting that names the user's own data; None for a suite that reads none."""
    measured_step: MeasuredStep | None = None
    """A training step that is measured in place of a known time; None if the suite has none."""


NOTHING_BORROWED: Mapping[str, float] = MappingProxyType({})


Row = dict[str, object]
"""One line of a listing: values are texts, numbers, lists or dictionaries."""


SeenBy = Literal["dali", "jax", "tensorflow", "torch"]
"""Libraries that can list accelerators."""


class DeviceLibrary(Frozen):
    """Library through which an adapter sees accelerators."""

    name: SeenBy
    measured: str
    """The measured module; if it is not installed, the library is not queried."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the worker, unless the user set them."""


class Suite(ABC):
    """Planning side of a suite: a family of scenarios."""

    name: ClassVar[str]
    """The name in profiles and at the start of cell ids."""
    title: ClassVar[str]
    """The suite's work in a few words."""
    runner: ClassVar[str]
    """``module:Class`` of the worker's side, which implements `Runner`."""
    ceilings: ClassVar[str | None] = None
    """Module that a run starts in an adapter's venv, for each scenario with a `codec`. It gets
    a `CeilingRequest` as its standard input, and prints the `MachineLimits`. None if there is
    none."""
    judge: ClassVar[str | None] = None
    """``module:Class`` of the `Judge`, which gives the verdict on a round in a process without the
    adapter's code. None if the runner's own verdict stands."""
    doubtful: ClassVar[frozenset[str]] = frozenset()
    """Kinds of causes that either a disturbed machine or a cheat explains. Such a round does not
    count and is measured again in a process of its own, unless half of the rounds are such."""
    declaration: ClassVar[Declaration]
    """Metrics and their display, without the names of scenarios and adapters."""
    efforts: ClassVar[Mapping[str, Effort]]
    """By name; all suites have ``quick``, ``standard`` and ``rigorous``."""
    shares_machine: ClassVar[bool] = False
    """Whether cells may share one machine at the same time, because their figures do not depend on
    it. A figure that does, such as a throughput, is marked as measured on a shared machine."""
    shares_process: ClassVar[bool] = False
    """Whether one worker process serves several groups in turn, else each group has its own. It
    suits libraries that import slowly, if figures do not depend on it. No process measures a cell
    twice."""
    options: ClassVar[tuple[Option, ...]] = ()
    """Options of ``skymark run`` that only this suite has."""
    tuning: ClassVar[Tuning | None] = None
    """Choice of settings for an accelerator's step; None if there is no choice."""
    formats: ClassVar[Mapping[str, str]] = {}
    """Formats of other programs, by name: ``module:Class``, which implements `ForeignFormat`."""

    # Listings

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

    # Planning

    @abstractmethod
    def plan(self, selection: Selection, effort: Effort) -> list[PlannedCell]:
        """Return the cells of a selection in order.

        Every suite takes the word ``all`` for each scenario, and for each adapter.

        Raises:
            UsageError: a name, setting, option or data source is wrong.
        """

    @abstractmethod
    def venv(self, cell: Cell) -> VenvSpec | None:
        """Return the venv of a cell's adapter; None for the interpreter that skymark runs in.

        Its `variants` name the packages that depend on the accelerator. The worker finds skymark
        and the suite's own package by itself. Their imports, such as pydantic and psutil, must be
        among the venv's packages.
        """

    def adapter_reference(self, cell: Cell) -> str:
        """Return a cell's adapter as the command line takes it; override if it can be a file."""
        return cell.adapter

    def code_of(self, record: Record) -> str:
        """Return the lines of a user's program with a record's settings; empty if none are known.

        Override in a suite with a `tuning`.
        """
        del record
        return ""

    def venvs(self, adapters: Sequence[str] = ()) -> dict[str, VenvSpec]:
        """Return the venvs of adapters by name; without names, of all that need no manual install.

        Raises:
            UnknownNameError: an adapter does not exist.
        """
        del adapters
        return {}

    def codec(self, cell: Cell) -> str | None:
        """Return the codec of a cell's elements, whose ceiling a run measures; None for none."""
        del cell
        return None

    def device_bytes(self, cell: Cell) -> int | None:
        """Return the memory that a cell's group needs on an accelerator; None if it is unknown."""
        del cell
        return None

    # On the machine that runs the cells

    def need(self, cell: Cell) -> Need:
        """Return the known upper bound of a cell's needs of the machine."""
        del cell
        return Need()

    def absence(self, cell: Cell) -> Cause | None:
        """Return the cause that keeps a cell from this machine, such as an absent library."""
        del cell
        return None

    def device_library(self, cell: Cell, platform: Platform) -> DeviceLibrary | None:
        """Return the library by which a cell's adapter sees the accelerator of a platform.

        If the library sees none, the cell fails. None for an adapter that always works on the host.
        """
        del cell, platform
        return None

    def data_of(self, cell: Cell) -> str | None:
        """Return the user's name for the real data of a cell; None if the suite has its own."""
        del cell
        return None

    def open_data(self, name: str) -> NamedData | None:
        """Open real data that a user names; None if the suite reads none.

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
        """Download the data of cells onto this disk, before any worker starts.

        Raises:
            DataError: it cannot be read.
        """

    def keep(self, cells: Iterable[Cell], cache: Path, announce: Callable[[str], None]) -> None:
        """Store what workers made for later runs, when cells have ended; faults are announced."""

    # Repetition and results

    def is_enough(
        self,
        cell: Cell,
        rounds: Sequence[RoundResult],
        effort: Effort,
        borrowed: Mapping[str, float] = NOTHING_BORROWED,
    ) -> bool:
        """Return whether a cell has enough rounds: the repetition policy.

        By default rounds go on until the deciding metric is precise enough, or the effort's rounds
        end.

        Args:
            cell: the cell.
            rounds: its rounds that count.
            effort: bounds of the rounds.
            borrowed: variances that its intervals borrow from other cells, by metric.
        """
        del cell
        metric = self.deciding_metric(rounds[-1].metrics if rounds else ())
        return is_precise_enough(rounds, metric, effort, borrowed.get(metric.name))

    def deciding_metric(self, metrics: Iterable[str]) -> Metric:
        """Return the metric whose interval decides the number of rounds, given known metrics."""
        return self.declaration.deciding(tuple(metrics))

    def figures(self, rounds: Sequence[RoundResult]) -> dict[str, Figure]:
        """Return the metrics over all rounds: by default their mean, with its interval."""
        return figures_of(rounds, self.declaration.metrics)

    def warnings(
        self, rounds: Sequence[RoundResult], effort: Effort
    ) -> tuple[StabilityWarning, ...]:
        """Return the warnings about the figures of these rounds."""
        metric = self.deciding_metric(rounds[-1].metrics if rounds else ())
        return warnings_of(rounds, effort, metric)

    def self_test(self) -> dict[str, str]:
        """Return the cost of the suite's own instrument on this machine: texts by title."""
        return {}


class ForeignFormat(Protocol):
    """File format of another program, to write and read results."""

    def write(self, records: Iterable[Record], directory: Path) -> list[Path]:
        """Write the `ok` records into a directory, and return their files.

        Raises:
            UsageError: a file of that name exists with other content.
        """

    def read(self, file: Path) -> ForeignFigures:
        """Read the figures of one file.

        Raises:
            DataError: it is not a file of the program.
        """


class ForeignFigures(Frozen):
    """Figures that another program measured; not a record, because nothing proves them."""

    scenario: str
    variant: str
    adapter: str
    axes: dict[str, Setting] = Field(default_factory=dict)
    metrics: dict[str, float]
    """By name; missing is absent."""


class TimedRegion(Protocol):
    """The timed region of a round: between its two ends the engine samples the process tree."""

    slices: tuple[tuple[int, int], ...]
    """After `ends`, the slices of a region that was cut into some: beginning and end in ns of
    `time.perf_counter_ns`. Empty for a region in one piece."""

    def begins(self, exclude: tuple[int, ...] = (), *, in_slices: bool = False) -> bool:
        """Start sampling, and return once it has begun.

        Args:
            exclude: processes that serve the benchmark and are not the adapter's.
            in_slices: whether the worker's processes may be frozen in between.

        Returns:
            Whether the region is measured in slices, in turn with another process.
        """

    def ends(self) -> Resources:
        """Return the use of the process tree."""

    def hand_over(self, evidence: Path) -> None:
        """Name the file from which the suite's judge judges the round.

        It is read before the next call of the runner.
        """


class Runner(Protocol):
    """Worker side of a suite: the cells of one group, in a process of their own.

    A runner with a slow import may have two more attributes. ``forks`` is true if the library
    allows a fork before the first measurement. ``forked(first=…)`` is called at the start of each
    fork; ``first`` is true if no fork has measured before. The process is then kept and forked for
    each round, unless the import started a thread or a process, or opened a device.
    """

    def __init__(self, cell: Cell, cache: Path, platform: Platform) -> None:
        """Get ready for a group: import the libraries that its cells need.

        The previous round may be judged meanwhile, but no round is measured. On a platform with an
        accelerator, the adapter has to use it.

        Args:
            cell: any cell of the group.
            cache: the cache directory.
            platform: the platform to run on.
        """

    def versions(self) -> dict[str, str]:
        """Return the versions of the libraries used."""

    def prepare(self, cell: Cell) -> None:
        """Make the cell's data unless it exists."""

    def measure(self, cell: Cell, round: int, effort: Effort, region: TimedRegion) -> RoundResult:
        """Measure and verify one round of a cell."""

    def close(self) -> None:
        """Free what the adapter holds. Called once, after the last cell."""


class ObservedRound(Frozen):
    """A round's timed region as the engine saw it, from outside the worker."""

    wall_s: float | None = None
    """Wall time by the engine's clock; None for a round without a timed region."""
    resources: Resources = Resources()
    taken_share: float | None = None
    """Share of the processors that other programs took meanwhile; None if unknown."""


class Judge(Protocol):
    """Judge of rounds, in a process of the adapter's venv that never runs the adapter's code."""

    def __init__(self, cell: Cell, cache: Path, platform: Platform) -> None:
        """Get ready for rounds of any cell of the venv; `cell` is an example."""

    def judge(
        self, cell: Cell, claim: RoundResult, evidence: Path, seen: ObservedRound
    ) -> Verification:
        """Return the verdict on a round.

        Args:
            cell: the measured cell.
            claim: the worker's result of the round, without a verdict.
            evidence: the file that the runner handed over.
            seen: the engine's own observation.
        """

    def close(self) -> None:
        """Free the judge's resources. Called once, at the end."""
