"""Lifecycle of one run, equal on every kind of machine: rent, run, download, verify, end, bill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from skymark.cloud.lifecycle.following import follow
from skymark.cloud.lifecycle.results import add_price
from skymark.cloud.lifecycle.stages import (
    Callbacks,
    Ended,
    Finished,
    InterruptAnswer,
    Kept,
    Left,
    Quoted,
    Rented,
    Retrieved,
    RunPlace,
)
from skymark.cloud.sky.jobs import JobEnd
from skymark.held_interrupts import one_interrupt_held
from skymark.model.errors import CloudError, SkymarkError
from skymark.model.sizes import count_of
from skymark.rundir.newest import point_at


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
