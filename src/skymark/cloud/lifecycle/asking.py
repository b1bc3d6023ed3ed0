"""Requests for machines and jobs, which can be taken back until they are granted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from skymark.cloud.sky.client import explained
from skymark.cloud.sky.jobs import MachineJob, await_job, request_job, take_back
from skymark.held_interrupts import one_interrupt_held
from skymark.model.errors import SkymarkError

IN_FLIGHT = 4
"""Requests at once. SkyPilot's API server on a user's machine keeps four workers for requests such
as these (``_MAX_LONG_WORKERS_LOCAL`` in ``sky/server/config.py`` of 0.14.1). For each more it
starts a process that imports SkyPilot: 64 of them were not through after ten minutes."""


class RequestInFlight:
    """At most one request for a machine or a job, from when it is made until it is granted."""

    def __init__(self) -> None:
        self._asked: Any = None

    def make(self, call: Callable[[], Any]) -> Any:
        """Make a request, note it and return it.

        Ctrl-C counts when that is done: of a request that is half made nobody knows whether it was
        heard. A second one counts at once.
        """
        with one_interrupt_held() as held:
            self._asked = call()
        if held.came:
            raise KeyboardInterrupt
        return self._asked

    def granted(self) -> None:
        """Forget it: there is nothing to take back any more."""
        self._asked = None

    def take_back(self) -> None:
        """End it, if it has not been granted.

        Raises:
            CloudError: it is not known whether it has ended.
        """
        if self._asked is not None:
            take_back([self._asked])
            self._asked = None


@dataclass(frozen=True)
class ClusterQueue:
    """Queue of a cluster, into which jobs are submitted by name."""

    cluster: str
    tasks: Mapping[str, Any]
    """SkyPilot's, by the names of the jobs."""

    def request(self, name: str) -> Any:
        """Ask for a job."""
        with explained(f"{self.cluster} did not take {name}"):
            return request_job(self.tasks[name], self.cluster)

    def result(self, asked: Any) -> MachineJob:
        """Return the job of a request once it is in the queue."""
        with explained(f"{self.cluster} did not take a job"):
            return await_job(asked, self.cluster)

    def take_back(self, asked: Sequence[Any]) -> None:
        """End requests that are still being worked at."""
        take_back(asked)


def put_in_order(
    names: Iterable[str],
    queue: ClusterQueue,
    granted: Callable[[str, MachineJob], None],
    in_flight: int = IN_FLIGHT,
) -> None:
    """Put jobs into a queue; stop at the first refusal, or at Ctrl-C.

    Args:
        names: of the jobs, in order of submission.
        queue: takes them.
        granted: gets each job in the queue, including requests in flight at a refusal.
        in_flight: number of parallel requests.

    Raises:
        SkymarkError: a job was refused; pending requests are cancelled.
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


def _ask(name: str, queue: ClusterQueue, asked: dict[str, Any]) -> None:
    """Ask for a job and note the request; Ctrl-C counts when that is done."""
    with one_interrupt_held() as held:
        asked[name] = queue.request(name)
    if held.came:
        raise KeyboardInterrupt


def _take_back(
    asked: Mapping[str, Any], queue: ClusterQueue, granted: Callable[[str, MachineJob], None]
) -> None:
    """Cancel requests, and report requests that were granted before."""
    try:
        queue.take_back(list(asked.values()))
    except SkymarkError:
        return  # no answer may come for them
    for name, one in asked.items():
        with suppress(SkymarkError):
            granted(name, queue.result(one))
