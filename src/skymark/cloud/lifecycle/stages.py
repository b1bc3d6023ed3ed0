"""The stages of a run on a rented machine, each made of the one before and never changed.

Quoted → Hired → Finished → Retrieved → Ended. A run whose results are verified nowhere but on its
machine ends as `Kept`, one that its user leaves going as `Left`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from skymark.cloud.cost.bill import Bill
from skymark.cloud.cost.quote import Quote
from skymark.cloud.lifecycle.following import RunningJob
from skymark.cloud.lifecycle.results import Results
from skymark.cloud.order import Order
from skymark.cloud.sky.jobs import JobEnd
from skymark.model.plan import Plan


@dataclass(frozen=True)
class Quoted:
    """An order with its plan and its price, agreed or not; nothing has been hired."""

    order: Order
    plan: Plan
    secrets: Mapping[str, str] = field(repr=False)
    """Values by variable; the run has them in its environment."""
    limit_s: int | None = None
    """Seconds that set-up and run may take together."""
    quote: Quote | None = None
    """None on a machine that is paid for already."""
    highest_hourly_price_usd: float | None = None
    """Of one machine; a dearer one is not hired."""


@dataclass(frozen=True)
class Hired:
    """A machine with the run's job on it."""

    order: Order
    job: RunningJob
    until_s: float | None
    """Moment of `skymark.cloud.waiting.clock_s` after which the client ends the job."""


@dataclass(frozen=True)
class Finished:
    """A job that is over, one way or another."""

    order: Order
    begun: bool = True
    """Whether there was a job at all."""
    end: JobEnd | None = None
    """None where it never began, or was stopped by the user."""
    interrupted: bool = False
    """Stopped by the user; what was measured until then comes home."""
    problems: tuple[str, ...] = ()

    def with_problem(self, problem: str) -> Self:
        """Return it with one problem more."""
        return replace(self, problems=(*self.problems, problem))


@dataclass(frozen=True)
class Retrieved:
    """A finished run whose results are home, as far as there are any."""

    finished: Finished
    results: Results | None = None
    problems: tuple[str, ...] = ()
    """With the results, or with their way home."""
    safe: bool = True
    """Whether the machine may go: what it measured is verified here or in a store."""
    gone: bool = False
    """Whether the machine is no longer there, though nobody ended it."""

    def interrupted(self) -> Self:
        """Return it as one that the user stopped."""
        return replace(self, finished=replace(self.finished, interrupted=True))


@dataclass(frozen=True)
class Over:
    """A run that is over, with what became of its results."""

    retrieved: Retrieved

    @property
    def order(self) -> Order:
        """The order."""
        return self.retrieved.finished.order

    @property
    def results(self) -> Results | None:
        """The results that came home."""
        return self.retrieved.results

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped it."""
        return self.retrieved.finished.interrupted

    @property
    def problems(self) -> tuple[str, ...]:
        """All that went wrong, in order."""
        return (*self.retrieved.finished.problems, *self.retrieved.problems)

    @property
    def all_well(self) -> bool:
        """Whether the run succeeded and its results are whole."""
        whole = self.results is not None and self.results.whole
        return self.retrieved.finished.end is JobEnd.SUCCEEDED and whole and not self.problems


@dataclass(frozen=True)
class Ended(Over):
    """A run that is over, its machine gone unless it is to stay."""

    gone_after_s: float | None = None
    """Seconds from the verified results to the proof that the machine is gone; None where it
    stays."""
    bill: Bill | None = None


@dataclass(frozen=True)
class Kept(Over):
    """A run that is over, its machine kept because what it measured is verified nowhere else."""

    idle_minutes: int
    """Without a job, until the machine ends itself."""
    hourly_price_usd: float | None
    """Of all machines together; None where it is not known."""


@dataclass(frozen=True)
class Left:
    """A run that its user left going."""

    order: Order
