"""Stages of a run on rented machines, its callbacks, and the lifecycle that goes through them.

Quoted → Rented → Finished → Retrieved → Ended, each made from the previous stage and never changed.
A run ends as `Kept` if its results are verified only on its machine, and as `Left` if its user
leaves it running.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Protocol, Self, TextIO

from skymark.cloud.cost.bill import Bill
from skymark.cloud.cost.quote import Quote
from skymark.cloud.lifecycle.following import RunningJob, follow
from skymark.cloud.lifecycle.results import ReturnedResults, add_price
from skymark.cloud.machine_script import KILL_AFTER_S
from skymark.cloud.rented_run import RentedRun
from skymark.cloud.sky.jobs import JobEnd
from skymark.cloud.source import SentSource
from skymark.cloud.waiting import clock_s
from skymark.held_interrupts import one_interrupt_held
from skymark.model.errors import CloudError, SkymarkError
from skymark.model.plan import Plan
from skymark.model.sizes import count_of
from skymark.rundir.newest import point_at

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


def carry_out(
    quoted: Quoted, place: RunPlace, callbacks: Callbacks, results: Path
) -> Ended | Kept | Left:
    """Rent the machine, run, download the results, end the machine, prove and bill it.

    The machine is always ended before this returns or raises, with three exceptions: it has results
    that are verified nowhere else, the user leaves it running, or it is to stay.

    Args:
        quoted: with its price agreed.
        place: the cluster or managed job.
        callbacks: progress, output and interruption.
        results: parent directory of the run's directory.

    Raises:
        NameTakenError: another launch uses that name; its machine is not touched.
        StillBillingError: the machine does not end.
    """
    place.claim(quoted)
    try:
        rented = _rent(quoted, place, callbacks)
        if isinstance(rented, Left):
            return rented
        if isinstance(rented, Finished):
            place.take_back()
    except BaseException:
        place.end(Finished(quoted.run, begun=False), callbacks)
        raise
    if isinstance(rented, Finished):
        return wind_up(rented, place, callbacks, results)
    finished = _follow(quoted, rented, place, callbacks)
    return finished if isinstance(finished, Left) else wind_up(finished, place, callbacks, results)


def wind_up(
    finished: Finished, place: RunPlace, callbacks: Callbacks, results: Path
) -> Ended | Kept:
    """Download the results of a finished run, end its machine and bill it.

    The machine stays if its results are not verified here or in a store. The first Ctrl-C waits for
    the download; a second Ctrl-C leaves the results on the machine.

    Raises:
        StillBillingError: the machine does not end.
    """
    told = "the results come home first; Ctrl-C again leaves them on the machine, and keeps it"
    with one_interrupt_held(lambda: callbacks.tell(told)) as held:
        over = _wound_up(finished, place, callbacks, results)
    return replace(over, retrieved=over.retrieved.interrupted()) if held.came else over


def _wound_up(
    finished: Finished, place: RunPlace, callbacks: Callbacks, results: Path
) -> Ended | Kept:
    if place.outlived_by_results and finished.end is not JobEnd.UNSTORED:
        try:
            gone_after_s = place.end(finished, callbacks)
        finally:
            retrieved = _retrieve(finished, place, callbacks, results)
    else:
        try:
            retrieved = _retrieve(finished, place, callbacks, results)
        except KeyboardInterrupt:
            problem = "it was interrupted during the download of the results"
            retrieved = Retrieved(finished, problems=(problem,), safe=not finished.begun)
        if not retrieved.safe:
            return place.keep(retrieved)
        gone_after_s = place.end(finished, callbacks)
    bill = None if gone_after_s is None else place.bill(finished.run)
    if bill is not None and retrieved.results is not None and retrieved.results.records:
        add_price(retrieved.results.directory, bill.hourly_price_usd, bill.price_usd)
    return Ended(retrieved, gone_after_s, bill)


def _rent(quoted: Quoted, place: RunPlace, callbacks: Callbacks) -> Rented | Finished | Left:
    """Get the machine with the run's job on it, or the end of a run that has none."""
    try:
        return place.rent(quoted, callbacks)
    except KeyboardInterrupt:
        if place.can_be_left and callbacks.stop_or_leave(quoted.run) is InterruptAnswer.LEAVE:
            return Left(quoted.run)
        return place.stop(quoted, None, callbacks)
    except CloudError as error:
        return Finished(quoted.run, begun=False, problems=(str(error),))


def _follow(
    quoted: Quoted, rented: Rented, place: RunPlace, callbacks: Callbacks
) -> Finished | Left:
    """Follow the run to its end. In any case its results still have to be downloaded."""
    run = quoted.run
    try:
        alone = run.machine.nodes == 1
        end = follow(rented.job, callbacks.log, callbacks.tell, rented.until_s, alone=alone)
        reason = rented.job.failure() if end is not JobEnd.SUCCEEDED else None
    except KeyboardInterrupt:
        if place.can_be_left and callbacks.stop_or_leave(quoted.run) is InterruptAnswer.LEAVE:
            return Left(run)
        try:
            return place.stop(quoted, rented, callbacks)
        except KeyboardInterrupt:
            problem = "it was not awaited that the run stops"
            return Finished(run, interrupted=True, problems=(problem,))
    except (SkymarkError, OSError) as error:
        return Finished(run, problems=(str(error),))
    if end is JobEnd.SUCCEEDED:
        return Finished(run, end=end)
    if end is JobEnd.UNSTORED:
        reason = "a store takes no files, so the results come from the machine instead"
    why = f": {reason}" if reason else ""
    return Finished(run, end=end, problems=(f"the run on {run.name} {end.value}{why}",))


def _retrieve(
    finished: Finished, place: RunPlace, callbacks: Callbacks, results: Path
) -> Retrieved:
    retrieved = place.retrieve(finished, results)
    found = retrieved.results
    if found is not None and found.whole:
        records = count_of(sum(found.records.values()), "record")
        callbacks.tell(f"results verified in {found.directory}: {records}")
        point_at(found.directory, results)
    return retrieved


def rent_and_leave(quoted: Quoted, place: RunPlace, callbacks: Callbacks) -> Left:
    """Rent the machine, and return when its job is in the queue, or its set-up done.

    The latter where that is all there is to do. The machine is ended where it could not be rented
    or set up, or the user interrupts.

    Raises:
        UsageError: another launch has a machine of that name; this one touches nothing of it.
        CloudError: it could not be rented, or its set-up failed.
        StillBillingError: it does not end.
    """
    with ended_where_not_rented(quoted, place, callbacks):
        rented = place.rent(quoted, callbacks)
        if quoted.run.machine.idle:
            end = follow(rented.job, callbacks.log, callbacks.tell, rented.until_s)
            if end is not JobEnd.SUCCEEDED:
                raise CloudError(f"the set-up of {rented.run.name} {end.value}")
    return Left(quoted.run)


@contextmanager
def ended_where_not_rented(quoted: Quoted, place: RunPlace, callbacks: Callbacks) -> Iterator[None]:
    """Take the name of a machine; it is ended where what rents it is interrupted, or fails.

    Raises:
        UsageError: another launch has a machine of that name; nothing of it is touched.
        StillBillingError: it does not end.
    """
    place.claim(quoted)
    try:
        yield
    except BaseException:
        try:
            place.take_back()
        finally:
            place.end(Finished(quoted.run, begun=False), callbacks)
        raise
