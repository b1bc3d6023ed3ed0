"""The oracle of one cell's batches in one round: make checks, count, keep the first fault."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

from skymark.model.record import Cause, Verification
from skymark.suites.loading.dataset.canonical import Array, Dataset
from skymark.suites.loading.oracle.reference import Reference
from skymark.suites.loading.scenario import Scenario
from skymark.suites.loading.work import Caches, Mixing


class Declared(NamedTuple):
    """Declarations of an adapter that decide how its batches are judged."""

    native: bool = False
    """Whether the library's own operators did the work, so that tolerances are theirs."""
    caches: Caches = "nothing"
    """Work of one epoch that is kept for the next."""
    shuffle: str = "global"
    """``global``, ``shards``, ``buffer K``, or shards and a buffer."""
    allowed_short_batches: int = 0
    """Allowed short batches before the last: one per worker if each has a tail."""
    mixing: Mixing = "draws"
    """How sources are picked in a scenario that mixes some."""
    seeded: bool = False
    """Whether a seed gives one order, whichever process it is in."""


@dataclass(frozen=True)
class Check(ABC):
    """A requirement of a loader. A subclass is a dataclass of a drive's observations."""

    by_name: ClassVar[dict[str, type[Check]]] = {}
    """All checks, as evidence names them."""

    def __init_subclass__(cls) -> None:
        Check.by_name[cls.__name__] = cls

    @abstractmethod
    def fault(self, oracle: Oracle) -> Cause | None:
        """Return the fault, if there is one, and add to the oracle's counts."""


@dataclass(frozen=True)
class Refusal(Check):
    """A fault that the drive has found."""

    kind: str
    message: str

    def fault(self, oracle: Oracle) -> Cause | None:
        """Return the fault."""
        del oracle
        return Cause(kind=self.kind, message=self.message)


class Verifier(ABC):
    """Take the checks of one round of a cell."""

    @abstractmethod
    def check(self, *checks: Check) -> None:
        """Make checks, one after another."""

    @abstractmethod
    def fresh(self, *, seed: int | None = None, allowed_short_batches: int | None = None) -> Self:
        """Return a fresh verifier of this kind, for another run of a loader.

        Args:
            seed: seed of that run; None for this seed.
            allowed_short_batches: short batches in that run; None for this number.
        """

    @abstractmethod
    def absorb(self, other: Self, context: str) -> None:
        """Add another verifier's counts, and its fault with the context."""

    def refuse(self, kind: str, message: str) -> None:
        """Note a fault that the drive has found."""
        self.check(Refusal(kind, message))

    def check_arrivals(self, epoch: int, cause: Cause | None) -> None:
        """Note the fault of a batch on its arrival, if it had one."""
        if cause is not None:
            self.refuse(cause.kind, f"epoch {epoch}: {cause.message}")


@dataclass
class Oracle(Verifier):
    """Make checks at once, and count over all of them."""

    scenario: Scenario
    dataset: Dataset
    declared: Declared = field(default_factory=Declared)
    seen_cpu_s: float | None = None
    """CPU seconds of the measured epochs by the engine's measurement; None without one."""
    batch_size: int | None = None
    """The size of batches that the cell asks for; None to trust the drive."""
    known_sums: Path | None = None
    """File of the reference's sums of epoch 0 (`oracle.summaries`); None to compare none."""
    is_quiet: bool = False
    """Whether others are known to have left the machine alone, so that times tell more."""
    least_first_s: float = float("inf")
    """Least CPU seconds per element that an epoch 0 took, in any round of the cell."""
    cause: Cause | None = field(default=None, init=False)
    """The first fault."""
    epochs: int = field(default=0, init=False)
    indexed_elements: int = field(default=0, init=False)
    content_elements: int = field(default=0, init=False)
    kept_bytes: int = field(default=0, init=False)
    """Bytes of the compared batches of measured epochs."""
    was_stopped: bool = field(default=False, init=False)
    """Whether any epoch was stopped before its end."""
    reference_s: float = field(default=float("inf"), init=False)
    """Least CPU seconds per element that the reference took for a batch."""
    max_difference: float | None = field(default=None, init=False)
    max_tolerance: float = field(default=0.0, init=False)
    fields: tuple[str, ...] = field(default=(), init=False)
    streams: dict[int, tuple[int, Array]] = field(default_factory=dict, init=False)
    """Per rank the latest epoch that was to be shuffled, and its elements in order."""
    first_streams: dict[int, Array] = field(default_factory=dict, init=False)
    """Per rank the elements of epoch 0 in order."""
    moved_places: int = field(default=0, init=False)
    """Sum of the distances of elements from their places in storage, over all shuffled epochs."""
    uniform_places: int = field(default=0, init=False)
    """Expectation of that sum for uniform permutations."""

    @property
    def reference(self) -> Reference:
        """The NumPy reference of the scenario on the dataset."""
        return Reference(self.scenario, self.dataset)

    def check(self, *checks: Check) -> None:
        """Make checks, and keep the first fault."""
        for one in checks:
            cause = one.fault(self)
            self.cause = self.cause or cause

    def saw(self, difference: float | None) -> None:
        """Note the largest difference of a field within its tolerance."""
        if difference is not None:
            self.max_difference = max(self.max_difference or 0.0, difference)

    def fresh(self, *, seed: int | None = None, allowed_short_batches: int | None = None) -> Oracle:
        """Return an oracle that has counted nothing, for another run of a loader."""
        scenario, declared = self.scenario, self.declared
        if seed is not None:
            scenario = replace(scenario, seed=seed)
        if allowed_short_batches is not None:
            declared = declared._replace(allowed_short_batches=allowed_short_batches)
        return Oracle(
            scenario,
            self.dataset,
            declared,
            batch_size=self.batch_size,
            is_quiet=self.is_quiet,
        )

    def absorb(self, other: Oracle, context: str) -> None:
        """Add another oracle's counts, and its fault, if any, with the context."""
        self.epochs += other.epochs
        self.indexed_elements += other.indexed_elements
        self.content_elements += other.content_elements
        self.kept_bytes += other.kept_bytes
        self.was_stopped |= other.was_stopped
        self.reference_s = min(self.reference_s, other.reference_s)
        self.saw(other.max_difference)
        self.max_tolerance = max(self.max_tolerance, other.max_tolerance)
        if other.cause is not None:
            self.refuse(other.cause.kind, f"{context}: {other.cause.message}")

    def verdict(self) -> Verification:
        """Return the verdict: the counts checked, and the first fault."""
        cause = self.cause
        if cause is None and not self.content_elements:
            cause = Cause(kind="nothing-checked", message="no batch was delivered to check")
        counts = {"epochs": self.epochs}
        if self.uniform_places:  # the ratio is the displacement, also of several rounds' sums
            counts |= {"moved_places": self.moved_places, "uniform_places": self.uniform_places}
        return Verification(
            passed=cause is None,
            cause=cause,
            verified_elements=self.indexed_elements,
            compared_elements=self.content_elements,
            counts=counts,
            fields=self.fields,
            tolerance=self.max_tolerance,
            max_difference=self.max_difference,
        )
