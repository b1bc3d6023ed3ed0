"""Follow a job on a machine to its end, through broken connections and servers that restart."""

from __future__ import annotations

import time
from typing import Protocol, TextIO, cast

from skymark.cloud.errors import CloudError, MachineLostError
from skymark.cloud.lifecycle.screen import Say
from skymark.cloud.machine_script import stall_token
from skymark.cloud.sky.jobs import ENDS, JobEnd
from skymark.cloud.waiting import BackgroundCall, clock_s
from skymark.model.errors import UsageError
from skymark.store.storing import stalled

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
