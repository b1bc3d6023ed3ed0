"""A cell, the unit of running and resuming, and its record as every store has it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property, lru_cache

from pydantic import Field, JsonValue

from skymark.model.base import Amount, Count, Frozen, Moment, NonNegative, digest_of
from skymark.model.data import DataTaken
from skymark.model.gpu import GpuUse, combined
from skymark.model.metric import Figure

Setting = bool | int | float | str

UNSAFE = re.compile(r"[^\w@=+-]", re.ASCII)
"""What a file name of ours does not have."""

FILE_NAME = re.compile(r"[\w@=+-][\w@=+.-]{0,240}", re.ASCII)
"""The name of a cell's files, without suffix: neither a path nor a hidden file."""


@lru_cache(maxsize=4096)
def _safe(part: str) -> str:
    """Return a part of an id; ten thousand cells have a few hundred of them."""
    return UNSAFE.sub("_", part)


def id_of(
    suite: str, scenario: str, variant: str, axes: Mapping[str, Setting], adapter: str
) -> str:
    """Return the id of the cell that these make."""
    values = [f"{name}-{value}" for name, value in sorted(axes.items())]
    return ".".join([_safe(part) for part in (suite, scenario, variant, *values, adapter)])


class Cell(Frozen):
    """One scenario variant × one adapter × settings, of one suite.

    `axes` are the values that tell cells of one scenario and adapter apart (`depth=50`) and are
    part of the id. `settings` apply to the whole run (`workers=2`). `specification` is everything
    else that decides what is measured: sizes, seed, versions of generators and oracle. Its suite
    alone writes and reads it, by a type of its own; to others it is JSON.
    """

    suite: str
    scenario: str
    variant: str
    adapter: str
    axes: dict[str, Setting] = Field(default_factory=dict)
    settings: dict[str, Setting] = Field(default_factory=dict)
    specification: dict[str, JsonValue] = Field(default_factory=dict)

    @cached_property
    def id(self) -> str:
        """The readable, stable, file-name-safe name: ``SUITE.PC-1.small.depth-50.grain``."""
        return id_of(self.suite, self.scenario, self.variant, self.axes, self.adapter)

    @cached_property
    def hash(self) -> str:
        """SHA-256 hex digest of the full specification; a record is reused only if it agrees."""
        return digest_of(self.model_dump(mode="json"))

    @property
    def label(self) -> str:
        """The scenario with its variant and axes, such as ``PC-1:small depth=50``."""
        axes = "".join(f" {name}={value}" for name, value in sorted(self.axes.items()))
        return f"{self.scenario}:{self.variant}{axes}"


SCHEMA_VERSION = 3
"""Version of the format of records, manifests and plans; files of others are refused."""


class Status(StrEnum):
    """The six ends of a cell."""

    OK = "ok"
    INVALID = "invalid"
    FAILED = "failed"
    TIMEOUT = "timeout"
    SKIPPED = "skipped"
    UNSUPPORTED = "unsupported"

    @property
    def is_bad(self) -> bool:
        """Whether a run with such a cell exits with status 1."""
        return self in {Status.INVALID, Status.FAILED, Status.TIMEOUT}


class Stop(StrEnum):
    """The rule that ended the rounds of a cell."""

    INTERVAL = "interval"
    """Its interval is as narrow as the effort asks, and its rank, within a time, is decided; in
    pairs with another side, the interval of the ratio."""
    DECIDED = "decided"
    """Within a time: too far behind the best, or shown not to be the best where that is wanted."""
    ROUNDS = "rounds"
    """It has the most rounds; of what does not vary, one."""
    TIME = "time"
    """The time of the run was over."""
    FAILED = "failed"
    """A round failed, took too long or was refused by the oracle."""


class Cause(Frozen):
    """Why a cell did not end `ok`: a stable kind, what happened, and what to do about it."""

    kind: str
    message: str
    action: str | None = None


class Resources(Frozen):
    """Resources that the worker's process tree used in one round's timed region."""

    cpu_s: NonNegative | None = None
    peak_pss_bytes: Count | None = None
    """Largest sum of proportional set sizes that was seen."""
    processes: Count | None = None
    gpus: tuple[GpuUse, ...] | None = None
    """Of the NVIDIA GPUs that it computed on; null where none was watched."""

    @property
    def gpu(self) -> GpuUse | None:
        """The GPUs taken together: means of shares and clocks, sums of power and energy."""
        return combined(self.gpus or ())


class Verification(Frozen):
    """Verdict of the oracle, with the counts of what it checked."""

    passed: bool
    cause: Cause | None = None
    verified_elements: Count = 0
    """Elements that were accounted for."""
    compared_elements: Count = 0
    """Elements whose content was compared with the reference."""
    counts: dict[str, Count] = Field(default_factory=dict)
    """What else was counted, such as epochs."""
    fields: tuple[str, ...] = ()
    tolerance: float = 0.0
    """Largest absolute difference allowed in floating-point fields."""
    max_difference: float | None = None
    """Largest absolute difference seen in floating-point fields."""


class Round(Frozen):
    """One repetition of a cell in a fresh process, as a record keeps it."""

    round: Count
    started_at: Moment
    setup_s: NonNegative
    """Time to set up, before the timed region."""
    timed_ns: Count
    """Wall time of the timed region."""
    metrics: dict[str, Amount] = Field(default_factory=dict)
    """By name; what a round lacks is absent."""
    resources: Resources = Resources()

    @property
    def own_s(self) -> float:
        """Seconds that its set-up and its timed part took."""
        return self.setup_s + self.timed_ns / 1e9


class RoundResult(Round):
    """One repetition of a cell as its worker reports it, raw samples included."""

    samples: dict[str, tuple[int, ...] | tuple[float, ...]] = Field(default_factory=dict)
    """Raw values in order, by column of the samples file; columns are equally long."""
    verification: Verification
    conditions: dict[str, Setting] = Field(default_factory=dict)

    @property
    def summary(self) -> Round:
        """The part that a record keeps; raw samples go into their own file."""
        return Round(**{name: getattr(self, name) for name in Round.model_fields})


class StabilityWarning(Frozen):
    """A reason to distrust a number, and its remedy."""

    kind: str
    message: str
    action: str


class Record(Frozen):
    """The outcome of one planned cell. Missing is null or absent, never 0."""

    schema_version: int = Field(default=SCHEMA_VERSION, ge=SCHEMA_VERSION, le=SCHEMA_VERSION)
    cell: Cell
    cell_hash: str
    data: DataTaken | None = None
    """What it took of the user's own data; null where it read none."""
    status: Status
    cause: Cause | None = None
    rounds: tuple[Round, ...] = ()
    stopped_by: Stop | None = None
    """The rule that ended its rounds; null where none began."""
    metrics: dict[str, Figure] = Field(default_factory=dict)
    """Figures over all rounds, by name; empty where the cell did not end `ok`."""
    verification: Verification | None = None
    conditions: dict[str, Setting] = Field(default_factory=dict)
    """What the numbers depend on beyond the settings, such as the storage format."""
    warnings: tuple[StabilityWarning, ...] = ()
    versions: dict[str, str] = Field(default_factory=dict)
    hardware_key: str | None = None
    """`MachineState.hardware_key` of the machine that measured it."""
    samples_sha256: str | None = None
    """SHA-256 hex digest of the cell's samples file; null where nothing was measured."""
    started_at: Moment
    ended_at: Moment
    price_usd: NonNegative | None = None
    """Its share of what the rented machines cost, by the time that setting up and measuring its
    rounds took; null where nothing was rented or measured. The shares add up to the whole."""

    @property
    def was_not_set_up(self) -> bool:
        """Whether its venv could not be made or started, which a later run may be able to."""
        return self.cause is not None and self.cause.kind in {"venv", "worker-start"}

    @property
    def was_not_run(self) -> bool:
        """Whether it was left out for a reason that other cells of its adapter have, too."""
        return self.was_not_set_up or self.status in {Status.SKIPPED, Status.UNSUPPORTED}

    @property
    def measured_s(self) -> float:
        """Seconds that setting up and measuring its rounds took."""
        return sum(one.own_s for one in self.rounds)

    def values(self, metric: str) -> list[float]:
        """Return a metric's value in each round that has it."""
        return [one.metrics[metric] for one in self.rounds if metric in one.metrics]


def is_well(records: Iterable[Record]) -> bool:
    """Whether a run exits with status 0 by its records.

    No cell ended badly, and of the cells that could run not all were skipped.
    """
    found = {record.status for record in records}
    was_idle = Status.SKIPPED in found and Status.OK not in found
    return not was_idle and not any(status.is_bad for status in found)
