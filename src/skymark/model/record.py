"""Cell, the unit of running and resuming, its record in every store, and the causes in it."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field, JsonValue

from skymark.model.base import Amount, Count, Frozen, Moment, NonNegative, digest_of
from skymark.model.data import DataTaken
from skymark.model.machine import GpuUse, combined
from skymark.model.metric import Figure

Setting = bool | int | float | str

UNSAFE = re.compile(r"[^\w@=+-]", re.ASCII)
"""Characters that skymark's file names do not contain."""

FILE_NAME = re.compile(r"[\w@=+-][\w@=+.-]{0,240}", re.ASCII)
"""Name of a cell's files, without suffix: neither a path nor a hidden file."""


@lru_cache(maxsize=4096)
def _safe(part: str) -> str:
    """Return a part of an id; ten thousand cells share a few hundred parts."""
    return UNSAFE.sub("_", part)


def id_of(
    suite: str, scenario: str, variant: str, axes: Mapping[str, Setting], adapter: str
) -> str:
    """Return the id of a cell."""
    values = [f"{name}-{value}" for name, value in sorted(axes.items())]
    return ".".join([_safe(part) for part in (suite, scenario, variant, *values, adapter)])


class Cell(Frozen):
    """One scenario variant × one adapter × settings, of one suite.

    `axes` are the values that distinguish cells of one scenario and adapter (`depth=50`); they are
    part of the id. `settings` apply to the whole run (`workers=2`). `specification` holds
    everything else that defines the work: sizes, seed, versions of generators and oracle. Only its
    suite interprets it.
    """

    suite: str
    scenario: str
    variant: str
    adapter: str
    axes: dict[str, Setting] = Field(default_factory=dict)
    settings: dict[str, Setting] = Field(default_factory=dict)
    specification: dict[str, JsonValue] = Field(default_factory=dict)
    reuse: str | None = None
    """Place of intermediate results that other runs share, for its suite; it changes no figure, so
    the hash leaves it out."""

    @cached_property
    def id(self) -> str:
        """The readable, stable, file-name-safe name: ``SUITE.PC-1.small.depth-50.grain``."""
        return id_of(self.suite, self.scenario, self.variant, self.axes, self.adapter)

    @cached_property
    def hash(self) -> str:
        """SHA-256 hex digest of the full specification; a record is reused only if it agrees."""
        return digest_of(self.model_dump(mode="json", exclude={"reuse"}))

    @property
    def label(self) -> str:
        """The scenario with its variant and axes, such as ``PC-1:small depth=50``."""
        axes = "".join(f" {name}={value}" for name, value in sorted(self.axes.items()))
        return f"{self.scenario}:{self.variant}{axes}"


SCHEMA_VERSION = 3
"""Version of the format of records, manifests and plans; no other version is read."""


class Status(StrEnum):
    """Status of a cell at its end."""

    OK = "ok"
    INVALID = "invalid"
    FAILED = "failed"
    TIMEOUT = "timeout"
    SKIPPED = "skipped"
    UNSUPPORTED = "unsupported"

    @property
    def is_bad(self) -> bool:
        """Whether a cell of this status makes the run exit with status 1."""
        return self in {Status.INVALID, Status.FAILED, Status.TIMEOUT}


class Stop(StrEnum):
    """Rule that ended the rounds of a cell."""

    INTERVAL = "interval"
    """Its interval is as narrow as the effort's target; within a time limit, its order is decided,
    too. In pairs, the interval is the ratio's."""
    DECIDED = "decided"
    """Within a time limit: far behind the best or, with the goal ``best``, significantly worse."""
    ROUNDS = "rounds"
    """It has the most rounds of the effort, or one round of an exact metric."""
    TIME = "time"
    """The run's time ended."""
    FAILED = "failed"
    """A round failed, took too long or did not pass the oracle."""


class Cause(Frozen):
    """Reason why a cell did not end `ok`: a stable kind, a message and the next action."""

    kind: str
    message: str
    action: str | None = None


class Resources(Frozen):
    """Resources that the worker's process tree used in one round's timed region."""

    cpu_s: NonNegative | None = None
    peak_pss_bytes: Count | None = None
    """Largest sampled sum of proportional set sizes."""
    processes: Count | None = None
    gpus: tuple[GpuUse, ...] | None = None
    """Use of its NVIDIA GPUs; null if no GPU was watched."""

    @property
    def gpu(self) -> GpuUse | None:
        """The GPUs taken together: means of shares and clocks, sums of power and energy."""
        return combined(self.gpus or ())


class MachineUse(Frozen):
    """Use of the processors by others in one round's timed region. Null is unknown."""

    began_at: Moment | None = None
    wall_s: NonNegative = 0.0
    """When the watch began, and its length."""
    cores: NonNegative
    """Processors that skymark may use, at most the control group's quota."""
    others_cores: NonNegative | None = None
    """Processors that other programs took, on average."""
    stolen_cores: NonNegative | None = None
    """Processors that the host gave to other machines, on average."""
    program: str | None = None
    """Name of the program that took most of `others_cores`; null if none took half."""
    waited_shares: dict[str, NonNegative] = Field(default_factory=dict)
    """Shares of the time in which some program waited for a resource, from the kernel's PSI."""
    throttled_share: NonNegative | None = None
    """Share of the time in which the control group was stopped for its quota."""
    frequency_mhz: NonNegative | None = None
    """Mean frequency of the first processors at the end."""
    most_share: NonNegative | None = None
    """Largest share that others may take of an undisturbed round; null if none is set."""

    @property
    def taken_share(self) -> float | None:
        """Share of the processors that other programs and other machines took."""
        if self.others_cores is None or not self.cores:
            return None
        return (self.others_cores + (self.stolen_cores or 0.0)) / self.cores

    def is_disturbed(self, most_share: float = math.inf) -> bool:
        """Return whether others took more than `most_share`, or than the share that is set."""
        most = most_share if self.most_share is None else self.most_share
        return self.taken_share is not None and self.taken_share > most


class Verification(Frozen):
    """Verdict of the oracle, with the counts of what it checked."""

    passed: bool
    cause: Cause | None = None
    verified_elements: Count = 0
    """Number of delivered elements that were checked."""
    compared_elements: Count = 0
    """Elements whose content was compared with the reference."""
    counts: dict[str, Count] = Field(default_factory=dict)
    """Further counts, such as epochs."""
    fields: tuple[str, ...] = ()
    tolerance: float = 0.0
    """Largest absolute difference allowed in floating-point fields."""
    max_difference: float | None = None
    """Largest absolute difference seen in floating-point fields."""


class Round(Frozen):
    """One repetition of a cell in a fresh process, as a record stores it."""

    round: Count
    started_at: Moment
    setup_s: NonNegative
    """Time to set up, before the timed region."""
    timed_ns: Count
    """Wall time of the timed region."""
    metrics: dict[str, Amount] = Field(default_factory=dict)
    """Values by name; missing metrics are absent."""
    resources: Resources = Resources()
    machine: MachineUse | None = None
    """Use of the processors by others; null in earlier records."""

    @property
    def is_disturbed(self) -> bool:
        """Whether others took more of the processors than the wanted precision allows."""
        return self.machine is not None and self.machine.is_disturbed()

    @property
    def own_s(self) -> float:
        """Seconds of its set-up and timed part."""
        return self.setup_s + self.timed_ns / 1e9


class RoundResult(Round):
    """One repetition of a cell as its worker reports it, raw samples included."""

    samples: dict[str, tuple[int, ...] | tuple[float, ...]] = Field(default_factory=dict)
    """Raw values in order, by column of the samples file; columns are equally long."""
    verification: Verification
    conditions: dict[str, Setting] = Field(default_factory=dict)

    @property
    def summary(self) -> Round:
        """The part that a record stores; raw samples go into their own file."""
        return Round(**{name: getattr(self, name) for name in Round.model_fields})


AnyRound = TypeVar("AnyRound", bound=Round)


def undisturbed(rounds: Iterable[AnyRound]) -> list[AnyRound]:
    """Return the rounds that no other program disturbed."""
    return [round for round in rounds if not round.is_disturbed]


class StabilityWarning(Frozen):
    """A reason to distrust a number, and its remedy."""

    kind: str
    message: str
    action: str


class Ceiling(Frozen):
    """Rate of the machine itself in one part of the work: an upper bound of any pipeline."""

    name: str
    rate: NonNegative
    """In the unit of the suite's primary metric."""
    basis: str
    """Method of the measurement, with its numbers."""
    binds: bool = True
    """Whether it can limit the measured work; else it is shown for comparison."""


class MachineLimits(Frozen):
    """Ceilings of a scenario on a machine, measured before the rounds."""

    ceilings: tuple[Ceiling, ...] = ()
    missing: str | None = None
    """Why there is no ceiling; null if there is one."""

    @property
    def lowest(self) -> Ceiling | None:
        """The lowest ceiling that binds."""
        binding = (ceiling for ceiling in self.ceilings if ceiling.binds and ceiling.rate)
        return min(binding, key=lambda ceiling: ceiling.rate, default=None)


class Record(Frozen):
    """Outcome of one planned cell. A missing value is null or absent, never 0."""

    schema_version: int = Field(default=SCHEMA_VERSION, ge=SCHEMA_VERSION, le=SCHEMA_VERSION)
    cell: Cell
    cell_hash: str
    data: DataTaken | None = None
    """Its use of the user's own data; null if it read none."""
    status: Status
    cause: Cause | None = None
    rounds: tuple[Round, ...] = ()
    disturbed: bool = False
    """Whether too few rounds were undisturbed: the figures then rest on all rounds, and the record
    is not ranked. Else they rest on the undisturbed rounds alone."""
    stopped_by: Stop | None = None
    """The rule that ended its rounds; null if no round began."""
    metrics: dict[str, Figure] = Field(default_factory=dict)
    """Figures over the rounds that count, by name; empty unless the cell ended `ok`."""
    borrowed_spreads: dict[str, NonNegative] = Field(default_factory=dict)
    """Standard deviations of rounds on the log scale that intervals borrow from the run's other
    cells, by metric; see `skymark.statistics.borrowing`."""
    limits: MachineLimits | None = None
    """What the machine itself can do of its work; null if the scenario has no such ceiling, or in
    runs without rounds to compare."""
    verification: Verification | None = None
    conditions: dict[str, Setting] = Field(default_factory=dict)
    """Conditions of the numbers beyond the settings, such as the storage format."""
    warnings: tuple[StabilityWarning, ...] = ()
    versions: dict[str, str] = Field(default_factory=dict)
    hardware_key: str | None = None
    """`MachineState.hardware_key` of the machine that measured it."""
    samples_sha256: str | None = None
    """SHA-256 hex digest of the cell's samples file; null if nothing was measured."""
    started_at: Moment
    ended_at: Moment
    price_usd: NonNegative | None = None
    """Its share of the cost of the rented machines, in proportion to the time of its rounds with
    their set-up. The shares add up to the whole. Null if nothing was rented or measured."""

    @property
    def was_not_set_up(self) -> bool:
        """Whether its venv could not be made or started; a later run may succeed."""
        return self.cause is not None and self.cause.kind in {"venv", "worker-start"}

    @property
    def was_not_run(self) -> bool:
        """Whether other cells of its adapter were skipped for the same reason."""
        return self.was_not_set_up or self.status in {Status.SKIPPED, Status.UNSUPPORTED}

    @property
    def measured_s(self) -> float:
        """Seconds of its rounds, with their set-up."""
        return sum(round.own_s for round in self.rounds)

    def values(self, metric: str) -> list[float]:
        """Return a metric's values, one per counted round that has it."""
        return [round.metrics[metric] for round in self.counted if metric in round.metrics]

    @property
    def counted(self) -> Sequence[Round]:
        """The rounds that the figures rest on."""
        return self.rounds if self.disturbed else undisturbed(self.rounds)


def is_well(records: Iterable[Record]) -> bool:
    """Return whether a run with these records exits with status 0.

    No cell ended badly, and at least one cell that could run was not skipped.
    """
    statuses = {record.status for record in records}
    was_idle = Status.SKIPPED in statuses and Status.OK not in statuses
    return not was_idle and not any(status.is_bad for status in statuses)


Given = Literal["invalid", "unsupported", "skipped", "timeout", "failed", "warning", "doctor"]
"""Status of a record with such a cause, a warning in a record, or a finding of `doctor`."""


class Explanation(Frozen):
    """Meaning of one kind, and the next action."""

    kind: str
    given: tuple[Given, ...]
    meaning: str
    action: str
    page: str | None = None
    """A page below ``docs/`` with details."""


@cache
def explanations() -> dict[str, Explanation]:
    """Return the explanation of every kind by its name, in the order of the file."""
    text = Path(__file__).with_name("causes.toml").read_text("utf-8")
    return {kind: Explanation(kind=kind, **entry) for kind, entry in tomllib.loads(text).items()}
