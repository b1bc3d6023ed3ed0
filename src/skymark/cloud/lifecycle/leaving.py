"""Hire a machine and leave it to its job and its idle timer: `launch --idle` and `--detach-run`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from skymark.cloud.errors import CloudError
from skymark.cloud.lifecycle.following import follow
from skymark.cloud.lifecycle.place import Place
from skymark.cloud.lifecycle.screen import Screen
from skymark.cloud.lifecycle.stages import Finished, Hired, Left, Quoted
from skymark.cloud.order import Order
from skymark.cloud.sky.jobs import JobEnd


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
