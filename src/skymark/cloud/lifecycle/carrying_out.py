"""The lifecycle of one run, the same in every place: hire, run, bring home, verify, end, bill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from skymark.cloud.errors import CloudError
from skymark.cloud.lifecycle.following import follow
from skymark.cloud.lifecycle.place import Place
from skymark.cloud.lifecycle.results import add_price
from skymark.cloud.lifecycle.screen import Choice, Screen
from skymark.cloud.lifecycle.stages import Ended, Finished, Hired, Kept, Left, Quoted, Retrieved
from skymark.cloud.sky.jobs import JobEnd
from skymark.held_interrupts import one_interrupt_held
from skymark.model.errors import SkymarkError


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
