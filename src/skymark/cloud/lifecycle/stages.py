"""Stages of a run on rented machines, and callbacks for progress and questions.

Quoted → Rented → Finished → Retrieved → Ended, each made from the previous stage and never changed.
A run ends as `Kept` if its results are verified only on its machine, and as `Left` if its user
leaves it running.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Protocol, Self, TextIO

from skymark.cloud.cost.bill import Bill
from skymark.cloud.cost.quote import Quote
from skymark.cloud.lifecycle.following import RunningJob
from skymark.cloud.lifecycle.results import ReturnedResults
from skymark.cloud.machine_script import KILL_AFTER_S
from skymark.cloud.rented_run import RentedRun
from skymark.cloud.sky.jobs import JobEnd
from skymark.cloud.source import SentSource
from skymark.cloud.waiting import clock_s
from skymark.model.plan import Plan

GRACE_S = KILL_AFTER_S + 60
"""Time after which the client ends a run that the machine should have ended: its time was up."""


@dataclass(frozen=True)
class Quoted:
    """A run with its plan and its price, agreed or not; nothing has been rented."""

    run: RentedRun
    plan: Plan
    secrets: Mapping[str, str] = field(repr=False)
    """Values by variable; the run has them in its environment."""
    limit_s: int | None = None
    """Seconds that set-up and run may take together."""
    quote: Quote | None = None
    """None on a machine that is paid for already."""
    highest_hourly_price_usd: float | None = None
    """Of one machine; a dearer one is not rented."""
    shared: Quote | None = None
    """Of `submit`'s workers on all GPUs of the machine; None where they would be no more."""

    @property
    def name(self) -> str:
        """Of the cluster or the managed job."""
        return self.run.name

    def until_s(self) -> float | None:
        """Return the moment of `clock_s` after which the client ends a job that begins now."""
        return None if self.limit_s is None else clock_s() + self.limit_s + GRACE_S


@dataclass(frozen=True)
class Rented:
    """A machine with the run's job on it."""

    run: RentedRun
    job: RunningJob
    until_s: float | None
    """Moment of `skymark.cloud.waiting.clock_s` after which the client ends the job."""


@dataclass(frozen=True)
class Finished:
    """A job that is over, one way or another."""

    run: RentedRun
    begun: bool = True
    """Whether there was a job at all."""
    end: JobEnd | None = None
    """None where it never began, or was stopped by the user."""
    interrupted: bool = False
    """Stopped by the user; the results up to then are downloaded."""
    problems: tuple[str, ...] = ()

    def with_problem(self, problem: str) -> Self:
        """Return it with one problem more."""
        return replace(self, problems=(*self.problems, problem))


@dataclass(frozen=True)
class Retrieved:
    """Finished run with its downloaded results, if there are any."""

    finished: Finished
    results: ReturnedResults | None = None
    problems: tuple[str, ...] = ()
    """With the results, or with their way home."""
    safe: bool = True
    """Whether the machine may go: what it measured is verified here or in a store."""
    gone: bool = False
    """Whether the machine is no longer there, though nobody ended it."""

    def interrupted(self) -> Self:
        """Return a copy that the user stopped."""
        return replace(self, finished=replace(self.finished, interrupted=True))


@dataclass(frozen=True)
class Over:
    """Ended run, with the outcome of its results."""

    retrieved: Retrieved

    @property
    def run(self) -> RentedRun:
        """The run, as it was priced."""
        return self.retrieved.finished.run

    @property
    def results(self) -> ReturnedResults | None:
        """The downloaded results."""
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

    run: RentedRun


class InterruptAnswer(StrEnum):
    """A user's answer after Ctrl-C."""

    STOP = "stop"
    LEAVE = "leave"


class Callbacks:
    """Callbacks for progress and interruption: these are silent, and agree to no price.

    A subclass shows and asks what it wants to.
    """

    def __init__(self, log: TextIO | None = None, *, agrees: bool = False) -> None:
        """Name the stream that gets the output of machines, and say whether prices are agreed to.

        Args:
            log: None for none.
            agrees: whether any price below the run's ceiling is.
        """
        self._log = log
        self._agrees = agrees

    @property
    def log(self) -> TextIO:
        """Gets the output of machines."""
        if self._log is None:
            self._log = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # for good
        return self._log

    def tell(self, text: str) -> None:
        """Show a line of progress."""

    def sends(self, source: SentSource) -> None:
        """Show the files to send to a machine, and the files that stay here."""

    def show(self, quoted: Quoted) -> None:
        """Show the price of a run, before it is agreed to and before anything is started."""

    def agree(self, quoted: Quoted) -> bool:
        """Whether a machine may be rented at this price."""
        del quoted
        return self._agrees

    def begin(self, run_id: str) -> None:
        """Prepare for a run whose price is agreed; its machine is rented next."""

    def choose(self, run: RentedRun) -> InterruptAnswer:
        """Return what is to become of a run whose user pressed Ctrl-C."""
        del run
        return InterruptAnswer.STOP

    def stop_or_leave(self, run: RentedRun) -> InterruptAnswer:
        """Ask once what is to become of a run; a second Ctrl-C stops it."""
        try:
            return self.choose(run)
        except (KeyboardInterrupt, EOFError):
            return InterruptAnswer.STOP


SILENT = Callbacks()


class RunPlace(Protocol):
    """A place for a run: a new cluster, a kept machine, or SkyPilot's managed jobs."""

    can_be_left: ClassVar[bool]
    """Whether the user may leave a run going; else Ctrl-C always stops it."""
    outlived_by_results: ClassVar[bool]
    """Whether results come from a store after the machine is gone; else they come before."""

    def claim(self, quoted: Quoted) -> None:
        """Take the name of a machine that is going to be rented.

        Raises:
            NameTakenError: it is in use.
        """

    def rent(self, quoted: Quoted, callbacks: Callbacks) -> Rented:
        """Get the machine and begin the job.

        Raises:
            CloudError: there is no capacity, or the machine did not come up.
        """

    def stop(self, quoted: Quoted, rented: Rented | None, callbacks: Callbacks) -> Finished:
        """End a run that its user stopped, so that nothing more is measured."""

    def take_back(self) -> None:
        """End a request that was not granted.

        Raises:
            CloudError: it is not known whether it has ended.
        """

    def retrieve(self, finished: Finished, results: Path) -> Retrieved:
        """Bring the results into a directory of runs and verify them; faults become problems."""

    def keep(self, retrieved: Retrieved) -> Kept:
        """Leave the machine to its idle timer, because it has what is verified nowhere else."""

    def end(self, finished: Finished, callbacks: Callbacks) -> float | None:
        """End the machine and prove it, unless it is to stay.

        Returns:
            Seconds that it took; None where it stays.

        Raises:
            StillBillingError: it does not end.
        """

    def bill(self, run: RentedRun) -> Bill | None:
        """Return the cost of the machine that is gone; None where it is not known."""
