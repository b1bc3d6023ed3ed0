"""The lifecycle of one run, the same in every place: hire, run, bring home, verify, end, bill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Protocol

from skymark.cloud.cost.bill import Bill
from skymark.cloud.errors import CloudError
from skymark.cloud.lifecycle.following import Choice, Screen, follow
from skymark.cloud.lifecycle.results import add_price
from skymark.cloud.lifecycle.stages import Ended, Finished, Hired, Kept, Left, Quoted, Retrieved
from skymark.cloud.machine_script import KILL_AFTER_S
from skymark.cloud.order import Order
from skymark.cloud.sky.jobs import JobEnd
from skymark.held_interrupts import one_interrupt_held
from skymark.model.errors import SkymarkError

GRACE_S = KILL_AFTER_S + 60
"""Time after which the client ends a run that the machine should have ended: its time was up."""


class Place(Protocol):
    """A place for a run: a new cluster, a kept machine, or SkyPilot's managed jobs."""

    can_be_left: ClassVar[bool]
    """Whether the user may leave a run going; else Ctrl-C always stops it."""
    outlived_by_results: ClassVar[bool]
    """Whether results come home after the machine is gone, from a store; else they come before."""

    def claim(self, order: Order) -> None:
        """Take the name of a machine that is going to be hired.

        Raises:
            NameTakenError: it is in use.
        """
        ...

    def hire(self, quoted: Quoted, screen: Screen) -> Hired:
        """Get the machine and begin the job.

        Raises:
            CloudError: there is no capacity, or the machine did not come up.
        """
        ...

    def stop(self, quoted: Quoted, hired: Hired | None, screen: Screen) -> Finished:
        """End a run that its user stopped, so that nothing more is measured."""
        ...

    def take_back(self) -> None:
        """End a request that was not granted.

        Raises:
            CloudError: it is not known whether it has ended.
        """
        ...

    def retrieve(self, finished: Finished, results: Path) -> Retrieved:
        """Bring the results into a directory of runs and verify them; faults become problems."""
        ...

    def keep(self, retrieved: Retrieved) -> Kept:
        """Leave the machine to its idle timer, because it has what is verified nowhere else."""
        ...

    def end(self, finished: Finished, screen: Screen) -> float | None:
        """End the machine and prove it, unless it is to stay.

        Returns:
            Seconds that it took; None where it stays.

        Raises:
            StillBillingError: it does not end.
        """
        ...

    def bill(self, order: Order) -> Bill | None:
        """Return the cost of the machine that is gone; None where it is not known."""
        ...


def carry_out(quoted: Quoted, place: Place, screen: Screen, results: Path) -> Ended | Kept | Left:
    """Hire the machine, run, bring the results home, end the machine, prove it and bill it.

    Whatever happens after hiring, the machine is ended before this returns or raises, unless it
    has results that are verified nowhere else, the user leaves it running, or it is to stay.

    Args:
        quoted: with its price agreed.
        place: where it runs.
        screen: progress, output and interruption.
        results: directory of runs; this one gets a directory of its own there.

    Raises:
        NameTakenError: another launch has a machine of that name; this one touches nothing of it.
        StillBillingError: the machine does not end.
    """
    place.claim(quoted.order)
    try:
        hired = _hire(quoted, place, screen)
        if isinstance(hired, Left):
            return hired
        if isinstance(hired, Finished):
            place.take_back()
    except BaseException:
        place.end(Finished(quoted.order, begun=False), screen)
        raise
    if isinstance(hired, Finished):
        return wind_up(hired, place, screen, results)
    finished = _follow(quoted, hired, place, screen)
    return finished if isinstance(finished, Left) else wind_up(finished, place, screen, results)


def wind_up(finished: Finished, place: Place, screen: Screen, results: Path) -> Ended | Kept:
    """Bring the results of a finished run home, end its machine and bill it.

    The machine is kept where what it measured is verified neither here nor in a store. The first
    Ctrl-C waits until that is done, a second one leaves the results on the machine.

    Raises:
        StillBillingError: the machine does not end.
    """
    told = "the results come home first; Ctrl-C again leaves them on the machine, and keeps it"
    with one_interrupt_held(lambda: screen.say(told)) as held:
        over = _wound_up(finished, place, screen, results)
    return replace(over, retrieved=over.retrieved.interrupted()) if held.came else over


def _wound_up(finished: Finished, place: Place, screen: Screen, results: Path) -> Ended | Kept:
    if place.outlived_by_results and finished.end is not JobEnd.UNSTORED:
        try:
            gone_after_s = place.end(finished, screen)
        finally:
            retrieved = _retrieve(finished, place, screen, results)
    else:
        try:
            retrieved = _retrieve(finished, place, screen, results)
        except KeyboardInterrupt:
            problem = "it was interrupted while the results came home"
            retrieved = Retrieved(finished, problems=(problem,), safe=not finished.begun)
        if not retrieved.safe:
            return place.keep(retrieved)
        gone_after_s = place.end(finished, screen)
    bill = None if gone_after_s is None else place.bill(finished.order)
    if bill is not None and retrieved.results is not None and retrieved.results.records:
        add_price(retrieved.results.directory, bill.hourly_price_usd, bill.price_usd)
    return Ended(retrieved, gone_after_s, bill)


def _hire(quoted: Quoted, place: Place, screen: Screen) -> Hired | Finished | Left:
    """Get the machine with the run's job on it, or the end of a run that has none."""
    try:
        return place.hire(quoted, screen)
    except KeyboardInterrupt:
        if place.can_be_left and screen.stop_or_leave() is Choice.LEAVE:
            return Left(quoted.order)
        return place.stop(quoted, None, screen)
    except CloudError as error:
        return Finished(quoted.order, begun=False, problems=(str(error),))


def _follow(quoted: Quoted, hired: Hired, place: Place, screen: Screen) -> Finished | Left:
    """Follow the run to its end. Whatever happens, its results are still to come home."""
    order = quoted.order
    try:
        alone = order.num_nodes == 1
        end = follow(hired.job, screen.log, screen.say, hired.until_s, alone=alone)
        reason = hired.job.failure() if end is not JobEnd.SUCCEEDED else None
    except KeyboardInterrupt:
        if place.can_be_left and screen.stop_or_leave() is Choice.LEAVE:
            return Left(order)
        try:
            return place.stop(quoted, hired, screen)
        except KeyboardInterrupt:
            problem = "it was not awaited that the run stops"
            return Finished(order, interrupted=True, problems=(problem,))
    except (SkymarkError, OSError) as error:
        return Finished(order, problems=(str(error),))
    if end is JobEnd.SUCCEEDED:
        return Finished(order, end=end)
    if end is JobEnd.UNSTORED:
        reason = "a store takes nothing, and the results come home from the machine instead"
    why = f": {reason}" if reason else ""
    return Finished(order, end=end, problems=(f"the run on {order.cluster} {end.value}{why}",))


def _retrieve(finished: Finished, place: Place, screen: Screen, results: Path) -> Retrieved:
    retrieved = place.retrieve(finished, results)
    found = retrieved.results
    if found is not None and found.whole:
        count = sum(found.records.values())
        screen.say(f"results verified in {found.directory}: {count} records")
    return retrieved


def hire_and_leave(quoted: Quoted, place: Place, screen: Screen) -> Left:
    """Hire the machine, and return when its job is in the queue, or its set-up done.

    The latter where that is all there is to do. The machine is ended where it could not be hired or
    set up, or the user interrupts.

    Raises:
        UsageError: another launch has a machine of that name; this one touches nothing of it.
        CloudError: it could not be hired, or its set-up failed.
        StillBillingError: it does not end.
    """
    with ended_where_not_hired(quoted.order, place, screen):
        hired = place.hire(quoted, screen)
        if quoted.order.idle:
            _await_set_up(hired, screen)
    return Left(quoted.order)


@contextmanager
def ended_where_not_hired(order: Order, place: Place, screen: Screen) -> Iterator[None]:
    """Take the name of a machine; it is ended where what hires it is interrupted, or fails.

    Raises:
        UsageError: another launch has a machine of that name; nothing of it is touched.
        StillBillingError: it does not end.
    """
    place.claim(order)
    try:
        yield
    except BaseException:
        try:
            place.take_back()
        finally:
            place.end(Finished(order, begun=False), screen)
        raise


def _await_set_up(hired: Hired, screen: Screen) -> None:
    end = follow(hired.job, screen.log, screen.say, hired.until_s)
    if end is not JobEnd.SUCCEEDED:
        raise CloudError(f"the set-up of {hired.order.cluster} {end.value}")
