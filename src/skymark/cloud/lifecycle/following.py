"""Follow a job to its end: progress, output, interruption, and requests to take back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TextIO, cast

from skymark.cloud.errors import CloudError, MachineLostError
from skymark.cloud.machine_script import stall_token
from skymark.cloud.sky.jobs import ENDS, JobEnd, take_back
from skymark.cloud.waiting import BackgroundCall, clock_s
from skymark.held_interrupts import one_interrupt_held
from skymark.model.errors import UsageError
from skymark.store.storing import stalled

Say = Callable[[str], None]
"""Shows one line of progress."""


class Choice(StrEnum):
    """A user's answer after Ctrl-C."""

    STOP = "stop"
    LEAVE = "leave"


@dataclass(frozen=True)
class Screen:
    """Callbacks while a machine works."""

    say: Say
    log: TextIO
    """Gets the machine's output."""
    interrupted: Callable[[], Choice]
    """Asks whether to stop the machine or to leave it running."""

    def stop_or_leave(self) -> Choice:
        """Ask once what is to become of the machine; a second Ctrl-C stops it."""
        try:
            return self.interrupted()
        except (KeyboardInterrupt, EOFError):
            return Choice.STOP


RETRY_S = 5.0
UNREACHABLE_S = 900.0
"""How long a machine may be out of reach before it is given up."""


class RunningJob(Protocol):
    """A job that runs somewhere, and can be looked at and stopped."""

    @property
    def name(self) -> str:
        """Its name in messages, or that of its machine."""
        ...

    def show(self, log: TextIO) -> int | None:
        """Write its output until it ends; returns what SkyPilot's `tail_logs` does."""
        ...

    def ended(self) -> JobEnd | None:
        """Return its end; None while it goes on."""
        ...

    def is_lost(self) -> bool:
        """Whether it will never end, because its machine is gone."""
        ...

    def failure(self) -> str | None:
        """Return why it failed, where that is known."""
        ...

    def stop(self) -> None:
        """End it now."""
        ...


class WatchedLog:
    """Output of a job that is looked at for a text on its way."""

    def __init__(self, log: TextIO, text: str) -> None:
        self.seen = False
        self._log = log
        self._text = text
        self._end = ""

    def write(self, text: str) -> int:
        """Write text and return its length."""
        said = self._end + text
        self.seen = self.seen or self._text in said
        self._end = said[-len(self._text) :]
        return self._log.write(text)

    def flush(self) -> None:
        """Write what is held back."""
        self._log.flush()

    def isatty(self) -> bool:
        """Return whether it goes to a terminal."""
        return self._log.isatty()


def follow(
    job: RunningJob,
    log: TextIO,
    say: Say,
    until_s: float | None,
    retry_s: float = RETRY_S,
    *,
    alone: bool = True,
) -> JobEnd:
    """Show a job's output until it ends.

    Args:
        job: it is stopped where its time is up, also where the connection was away just then.
        log: gets the output.
        say: told when the connection breaks.
        until_s: a moment of `clock_s`, after which it is stopped; None for no limit.
        retry_s: time between two attempts to reach the machine.
        alone: whether it is on one machine: of several, one may wait for a store while others
            measure.

    Raises:
        MachineLostError: the machine is no longer there.
        CloudError: it could not be reached for a long time.
    """
    late = False
    lost_s: float | None = None
    while True:
        if not late:
            output, stalled = _show(job, log, until_s, alone=alone)
            if stalled and not output.done:
                return JobEnd.UNSTORED
            late = not output.done
            if not late and output.raised is None and output.result in ENDS:
                return ENDS[output.result]
        late = late or (until_s is not None and clock_s() > until_s)
        try:
            end = job.ended()
            if end is None and late:
                job.stop()
                return JobEnd.TOO_LATE
            lost_s = None
        except (CloudError, UsageError) as error:
            if _is_lost(job):
                raise MachineLostError(
                    f"{job.name} is no longer there: its provider took it away, or somebody ended "
                    "it"
                ) from error
            lost_s = lost_s or clock_s()
            if clock_s() - lost_s > UNREACHABLE_S:
                raise
            say(f"{job.name} does not answer ({error}); the run goes on there, trying again")
            end = None
        if end is not None:
            return end
        time.sleep(retry_s)


def _show(
    job: RunningJob, log: TextIO, until_s: float | None, *, alone: bool
) -> tuple[BackgroundCall, bool]:
    """Show a job's output until it ends, its time is up, or it only waits for a store."""
    watched = WatchedLog(log, stalled(stall_token()))
    output = BackgroundCall(lambda: job.show(cast(TextIO, watched)))
    output.wait(until_s, lambda: alone and watched.seen)
    return output, alone and watched.seen


def _is_lost(job: RunningJob) -> bool:
    try:
        return job.is_lost()
    except (CloudError, UsageError):
        return False


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
