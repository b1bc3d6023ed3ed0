"""Jobs put into a queue in order, with few requests for them at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from skymark.cloud.sky.jobs import MachineJob
from skymark.held_interrupts import one_interrupt_held
from skymark.model.errors import SkymarkError

IN_FLIGHT = 4
"""Requests at once. SkyPilot's API server on a user's machine keeps four workers for requests such
as these (``_MAX_LONG_WORKERS_LOCAL`` in ``sky/server/config.py`` of 0.14.1). For each more it
starts a process that imports SkyPilot: 64 of them were not through after ten minutes."""


class Queue(Protocol):
    """A queue that jobs are asked into by name."""

    def request(self, name: str) -> Any:
        """Ask for a job; returns the request."""

    def result(self, asked: Any) -> MachineJob:
        """Return the job of a request once it is in the queue.

        Raises:
            SkymarkError: it was refused, or taken back.
        """

    def take_back(self, asked: Sequence[Any]) -> None:
        """End requests that are still being worked at.

        Raises:
            SkymarkError: it is not known whether they have ended.
        """


def put_in_order(
    names: Iterable[str],
    queue: Queue,
    granted: Callable[[str, MachineJob], None],
    in_flight: int = IN_FLIGHT,
) -> None:
    """Put jobs into a queue; at the first refusal, or Ctrl-C, no further one is asked for.

    Args:
        names: of the jobs, in the order in which they are asked for.
        queue: takes them.
        granted: told of each that is in the queue, also of those that were on their way when
            another was refused.
        in_flight: requests at once.

    Raises:
        SkymarkError: one was refused; those that were asked for and not granted are taken back.
    """
    left = deque(names)
    asked: dict[str, Any] = {}
    try:
        while left or asked:
            while left and len(asked) < in_flight:
                _ask(left.popleft(), queue, asked)
            name = next(iter(asked))
            job = queue.result(asked[name])
            del asked[name]
            granted(name, job)
    except BaseException:
        _take_back(asked, queue, granted)
        raise


def _ask(name: str, queue: Queue, asked: dict[str, Any]) -> None:
    """Ask for a job and note the request; Ctrl-C counts when that is done."""
    with one_interrupt_held() as held:
        asked[name] = queue.request(name)
    if held.came:
        raise KeyboardInterrupt


def _take_back(
    asked: Mapping[str, Any], queue: Queue, granted: Callable[[str, MachineJob], None]
) -> None:
    """Take requests back, and tell of those that were granted before."""
    try:
        queue.take_back(list(asked.values()))
    except SkymarkError:
        return  # no answer may come for them
    for name, one in asked.items():
        with suppress(SkymarkError):
            granted(name, queue.result(one))
