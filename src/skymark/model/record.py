"""What became of a cell, as it is written to disk and to every store."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from skymark.model.base import Frozen
from skymark.model.cell import Cell, Setting

SCHEMA_VERSION = 2
"""Version of the record and manifest format; files of earlier versions load.

1: first release. 2: a record names its samples' digest and its hardware, a manifest the machines
that continued the run and the stores it went to; all absent in files of version 1.
"""


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


class Cause(Frozen):
    """Why a cell did not end `ok`: a stable kind, what happened, and what to do about it."""

    kind: str
    message: str
    action: str | None = None


class Estimate(Frozen):
    """A figure with its 95 % confidence interval; the bounds are null below two rounds."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def relative_half_width(self) -> float | None:
        """Half the interval's width over the value, or None where there is no interval."""
        if self.low is None or self.high is None or self.value == 0:
            return None
        return (self.high - self.low) / 2 / abs(self.value)


class Resources(Frozen):
    """What the worker's process tree used in one round's timed region."""

    cpu_s: float | None = None
    peak_pss_bytes: int | None = None
    processes: int | None = None


class Verification(Frozen):
    """What the oracle checked, and its verdict."""

    passed: bool
    cause: Cause | None = None
    epochs: int = 0
    indexed_elements: int = 0
    """Elements whose index was accounted for (exactly once per epoch)."""
    content_elements: int = 0
    """Elements whose every field was compared with the NumPy reference."""
    fields: tuple[str, ...] = ()
    tolerance: float = 0.0
    """Largest absolute difference allowed in floating-point fields."""
    max_difference: float | None = None
    """Largest absolute difference seen in floating-point fields."""
    operators: Literal["reference", "native"] = "reference"
    """Whose code did the transforms: skymark's NumPy reference, or the library's own."""


class RoundResult(Frozen):
    """One repetition of a cell in a fresh process. Times in ns, sizes in bytes."""

    round: int
    started_at: datetime
    import_s: float
    """Time the worker took to import the adapter's library."""
    setup_s: float
    """Time to open the loader, before the first batch was asked for."""
    first_batch_ns: int | None
    """Wait for the first batch of the first epoch, null if there was none."""
    timed_ns: int
    """Wall time of all measured epochs, think time included."""
    think_ns: int = 0
    elements: int
    """Elements delivered in the measured epochs."""
    bytes: int
    """Bytes delivered in the measured epochs, as host arrays."""
    wait_ns: tuple[int, ...] = ()
    """Every batch's wait, warm-up included, in order."""
    batch_elements: tuple[int, ...] = ()
    epoch: tuple[int, ...] = ()
    warmup_epochs: int = 1
    resources: Resources = Resources()
    verification: Verification
    extra: dict[str, float] = Field(default_factory=dict)
    """Figures that only this scenario has, such as ``resume_s`` or ``scaling_efficiency``."""
    page_cache: Literal["warm", "cold"] = "warm"


class RoundSummary(Frozen):
    """The part of a round that a record keeps; the raw waits are in the samples file."""

    round: int
    started_at: datetime
    samples_per_s: float
    bytes_per_s: float
    first_batch_ns: int | None
    setup_s: float
    import_s: float
    elements: int
    timed_ns: int
    utilisation: float | None
    resources: Resources
    extra: dict[str, float] = Field(default_factory=dict)

    @property
    def own_s(self) -> float:
        """Seconds that its set-up and its timed part took."""
        return self.setup_s + self.timed_ns / 1e9


class Figures(Frozen):
    """What is derived from the raw samples of all rounds."""

    samples_per_s: Estimate
    bytes_per_s: Estimate
    first_batch_ns: Estimate
    wait_p50_ns: float | None
    """Null where a scenario times no batches one by one, as do the other percentiles."""
    wait_p95_ns: float | None
    wait_p99_ns: float | None
    utilisation: Estimate | None = None
    """Share of the time an accelerator with the given think time per batch would be busy."""
    cpu_s_per_1000_samples: Estimate | None = None
    peak_pss_bytes: int | None = None
    extra: dict[str, Estimate] = Field(default_factory=dict)


class StabilityWarning(Frozen):
    """Something that makes a number less trustworthy, and what to do about it."""

    kind: str
    message: str
    action: str


class Record(Frozen):
    """The outcome of one planned cell. Missing is null, never 0."""

    schema_version: int = Field(default=SCHEMA_VERSION, le=SCHEMA_VERSION)
    cell: Cell
    cell_hash: str
    status: Status
    cause: Cause | None = None
    rounds: tuple[RoundSummary, ...] = ()
    figures: Figures | None = None
    verification: Verification | None = None
    warnings: tuple[StabilityWarning, ...] = ()
    versions: dict[str, str] = Field(default_factory=dict)
    environment_settings: dict[str, Setting] = Field(default_factory=dict)
    page_cache: Literal["warm", "cold"] | None = None
    hardware_key: str | None = None
    """`Machine.hardware_key` of the machine that measured it."""
    samples_sha256: str | None = None
    """SHA-256 hex digest of the cell's samples file; null where nothing was measured."""
    started_at: datetime
    ended_at: datetime
    price_usd: float | None = None
    """Its share of what the rented machines cost, by the time that setting up and measuring its
    rounds took; null where nothing was rented or measured. The shares add up to the whole."""

    @property
    def measured_s(self) -> float:
        """Seconds that setting up and measuring its rounds took."""
        return sum(one.own_s for one in self.rounds)
