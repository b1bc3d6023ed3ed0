"""The lifecycle of one run, the same in every place: hire, run, bring home, verify, end, bill."""

from __future__ import annotations

from pathlib import Path

from skymark.cloud.errors import CloudError
from skymark.cloud.lifecycle.following import follow
from skymark.cloud.lifecycle.place import Place
from skymark.cloud.lifecycle.results import add_price
from skymark.cloud.lifecycle.screen import Choice, Screen
from skymark.cloud.lifecycle.stages import Ended, Finished, Hired, Left, Quoted, Retrieved
from skymark.cloud.sky.jobs import JobEnd
from skymark.model.errors import SkymarkError


def carry_out(quoted: Quoted, place: Place, screen: Screen, results: Path) -> Ended | Left:
    """Hire the machine, run, bring the results home, end the machine, prove it and bill it.

    Whatever happens after hiring, the machine is ended before this returns or raises, unless the
    user leaves it running or it is to stay.

    Args:
        quoted: with its price agreed.
        place: where it runs.
        screen: progress, output and interruption.
        results: directory of runs; this one gets a directory of its own there.

    Raises:
        StillBillingError: the machine does not end.
    """
    try:
        finished = _work(quoted, place, screen)
        if isinstance(finished, Left):
            return finished
        place.take_back()
    except BaseException:
        place.end(Finished(quoted.order, begun=False), screen)
        raise
    return wind_up(finished, place, screen, results)


def wind_up(finished: Finished, place: Place, screen: Screen, results: Path) -> Ended:
    """Bring the results of a finished run home, end its machine and bill it.

    Raises:
        StillBillingError: the machine does not end.
    """
    directory = results / finished.order.run_id
    if place.outlived_by_results:
        try:
            gone_after_s = place.end(finished, screen)
        finally:
            retrieved = _retrieve(finished, place, screen, directory)
    else:
        try:
            retrieved = _retrieve(finished, place, screen, directory)
        finally:
            gone_after_s = place.end(finished, screen)
    bill = None if gone_after_s is None else place.bill(finished.order)
    if bill is not None and retrieved.results is not None and retrieved.results.records:
        add_price(directory, bill.hourly_price_usd, bill.price_usd)
    return Ended(retrieved, gone_after_s, bill)


def _work(quoted: Quoted, place: Place, screen: Screen) -> Finished | Left:
    """Hire the machine and follow the run to its end."""
    order = quoted.order
    hired: Hired | None = None
    try:
        hired = place.hire(quoted, screen)
        end = follow(hired.job, screen.log, screen.say, hired.until_s)
        reason = hired.job.failure() if end is not JobEnd.SUCCEEDED else None
    except KeyboardInterrupt:
        if place.can_be_left and screen.stop_or_leave() is Choice.LEAVE:
            return Left(order)
        return place.stop(quoted, hired, screen)
    except SkymarkError as error:
        if hired is None and not isinstance(error, CloudError):
            raise
        return Finished(order, begun=hired is not None, problems=(str(error),))
    if end is JobEnd.SUCCEEDED:
        return Finished(order, end=end)
    why = f": {reason}" if reason else ""
    return Finished(order, end=end, problems=(f"the run on {order.cluster} {end.value}{why}",))


def _retrieve(finished: Finished, place: Place, screen: Screen, directory: Path) -> Retrieved:
    retrieved = place.retrieve(finished, directory)
    results = retrieved.results
    if results is not None and results.whole:
        count = sum(results.records.values())
        screen.say(f"results verified in {results.directory}: {count} records")
    return retrieved
