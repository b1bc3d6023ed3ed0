"""The outcome of a run, which each node of a cluster writes down as its part ends."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

from skymark.cloud.errors import CloudError, UnreachableError
from skymark.cloud.lifecycle.following import RunningJob, Say
from skymark.cloud.lifecycle.results import phase_in
from skymark.cloud.machine_script import RESULTS
from skymark.cloud.order import Order
from skymark.cloud.sky.jobs import JobEnd
from skymark.cloud.sky.ssh import PAUSE_S, host, take
from skymark.model.errors import UsageError

SET_UP_DONE = "setup 0"
DONE = "run 0"
"""Outcomes that `skymark.cloud.machine_script.script` writes."""

CANCELLED_S = 30.0
"""Time that SkyPilot gives the processes of a cancelled job to end."""


def await_outcome(order: Order) -> None:
    """Wait until every node of a cluster has written down the end of its part of a run.

    Raises:
        CloudError: one has not after the time that SkyPilot gives a cancelled job, or cannot be
            reached.
    """
    for node in range(order.num_nodes):
        _fetch(order, node, attempts=1 + math.ceil(CANCELLED_S / PAUSE_S))


def parts_over(order: Order) -> bool:
    """Whether some node of a cluster answers, and all that do have ended their part of a run."""
    answers = []
    for node in range(order.num_nodes):
        with suppress(UnreachableError):
            answers.append(_fetch_if_there(order, node))
    return bool(answers) and all(answers)


def end_there(order: Order) -> JobEnd | None:
    """Return the end of a run, as all nodes of its cluster have written it down; else None.

    Raises:
        UnreachableError: a node does not answer.
        UsageError: there is no such cluster any more.
    """
    found = [_fetch_if_there(order, node) for node in range(order.num_nodes)]
    if not all(found) or SET_UP_DONE in found:
        return None
    return JobEnd.SUCCEEDED if set(found) == {DONE} else JobEnd.FAILED


@dataclass
class JobWithOutcome:
    """A job whose machines tell its end where SkyPilot does not answer.

    Implements `skymark.cloud.lifecycle.following.RunningJob`. Without it, a machine could end
    itself as idle while its client still waits for SkyPilot, and what it measured would go with it.
    """

    job: RunningJob
    order: Order
    say: Say
    _told: bool = field(default=False, init=False)
    """Whether the user knows that SkyPilot does not answer."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.job.name

    def show(self, log: TextIO) -> int | None:
        """Write its output until it ends."""
        return self.job.show(log)

    def ended(self) -> JobEnd | None:
        """Return its end; None while it goes on."""
        try:
            return self.job.ended()
        except CloudError as error:
            try:
                end = end_there(self.order)
            except (UnreachableError, UsageError):
                raise error from None
            if end is None and not self._told:
                self.say(
                    f"SkyPilot does not answer ({error}); {self.name} itself says that the run "
                    "goes on, and is asked until it has ended"
                )
                self._told = True
            return end

    def is_lost(self) -> bool:
        """Whether its machine is gone."""
        return self.job.is_lost()

    def failure(self) -> str | None:
        """Return why it failed, where that is known."""
        return self.job.failure()

    def stop(self) -> None:
        """End it now."""
        self.job.stop()


def _fetch_if_there(order: Order, node: int) -> str:
    try:
        return _fetch(order, node)
    except UnreachableError:
        raise
    except CloudError:  # there is none yet
        return ""


def _fetch(order: Order, node: int, attempts: int = 1) -> str:
    name = f"{order.run_id}.outcome"
    there = f"{host(order.cluster, node)}:{RESULTS}/{name}"
    with TemporaryDirectory() as place:  # rsync would take another node's for this one's
        take(order.cluster, there, place, attempts=attempts)
        return phase_in(Path(place), name)
