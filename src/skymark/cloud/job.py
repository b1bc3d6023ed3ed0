"""Follow a job on a machine to its end, through broken connections and servers that restart."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TextIO

from skymark.cloud.ending import find
from skymark.cloud.errors import CloudError, MachineLostError
from skymark.cloud.skypilot import ask, sdk
from skymark.model.errors import UsageError

POLL_S = 0.1
RETRY_S = 5.0
UNREACHABLE_S = 900.0
"""How long a machine may be out of reach before it is given up."""

Say = Callable[[str], None]


class JobEnd(StrEnum):
    """How a job ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TOO_LATE = "too late"
    """It was still running when its time was up."""


ENDS = {0: JobEnd.SUCCEEDED, 100: JobEnd.FAILED, 103: JobEnd.CANCELLED}
"""What SkyPilot's `tail_logs` returns, where that is an end."""


BY_STATUS = {"SUCCEEDED": JobEnd.SUCCEEDED, "CANCELLED": JobEnd.CANCELLED}
"""By SkyPilot's status; any other that is an end is a failure."""


class Job(Protocol):
    """What runs somewhere, and can be looked at and stopped."""

    @property
    def name(self) -> str:
        """What messages call it, or the machine it runs on."""
        ...

    def show(self, log: TextIO) -> int | None:
        """Write its output until it ends; returns what SkyPilot's `tail_logs` does."""
        ...

    def ended(self) -> JobEnd | None:
        """Return how it ended; None while it goes on."""
        ...

    def is_lost(self) -> bool:
        """Whether it will never end, because its machine is gone."""
        ...

    def stop(self) -> None:
        """End it now."""
        ...


@dataclass(frozen=True)
class MachineJob:
    """A job in the queue of a machine."""

    name: str
    """The machine's."""
    number: int

    def show(self, log: TextIO) -> int | None:
        """Write its output until it ends."""
        code: int | None = sdk().tail_logs(self.name, self.number, follow=True, output_stream=log)
        return code

    def ended(self) -> JobEnd | None:
        """Return how it ended; None while it goes on."""
        status = ask(lambda sky: sky.job_status(self.name, [self.number])).get(self.number)
        if status is None or not status.is_terminal():
            return None
        return BY_STATUS.get(status.value, JobEnd.FAILED)

    def is_lost(self) -> bool:
        """Whether the provider has the machine no longer."""
        return find(self.name, refresh=True) is None

    def stop(self) -> None:
        """Take it from the queue, or end it."""
        ask(lambda sky: sky.cancel(self.name, job_ids=[self.number]))


def follow(job: Job, log: TextIO, say: Say, until_s: float | None) -> JobEnd:
    """Show a job's output until it ends.

    Args:
        job: what runs.
        log: gets the output.
        say: told when the connection breaks.
        until_s: a moment of `time.time`, after which it is ended; None for no limit.

    Raises:
        MachineLostError: the machine is no longer there.
        CloudError: it could not be reached for a long time.
    """
    lost_s: float | None = None
    while True:
        tail = _Call(lambda: job.show(log))
        if not tail.wait(until_s):
            job.stop()
            return JobEnd.TOO_LATE
        if tail.raised is None and tail.result in ENDS:
            return ENDS[tail.result]
        try:
            ended = job.ended()
            lost_s = None
        except (CloudError, UsageError) as error:
            if _is_lost(job):
                raise MachineLostError(
                    f"{job.name} is no longer there: its provider took it away, or somebody ended "
                    "it"
                ) from error
            lost_s = lost_s or time.time()
            if time.time() - lost_s > UNREACHABLE_S:
                raise
            say(f"{job.name} does not answer ({error}); the run goes on there, trying again")
            ended = None
        if ended is not None:
            return ended
        if until_s is not None and time.time() > until_s:
            return JobEnd.TOO_LATE
        time.sleep(RETRY_S)


def _is_lost(job: Job) -> bool:
    try:
        return job.is_lost()
    except (CloudError, UsageError):
        return False


def background(call: Callable[[], Any], timeout_s: float | None = None) -> Any:
    """Return what a call returns that may take long, so that Ctrl-C ends the waiting at once.

    Raises:
        TimeoutError: it took longer than allowed.
    """
    made = _Call(call)
    if not made.wait(None if timeout_s is None else time.time() + timeout_s):
        raise TimeoutError
    if made.raised is not None:
        raise made.raised
    return made.result


class _Call:
    """A call that may take hours, in a thread, so that time limits and Ctrl-C still work."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.result: Any = None
        self.raised: Exception | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self, until_s: float | None) -> bool:
        """Wait for its end; returns False if the time is up first."""
        while self._thread.is_alive():
            if until_s is not None and time.time() > until_s:
                return False
            self._thread.join(POLL_S)
        return True

    def _run(self) -> None:
        try:
            self.result = self._call()
        except Exception as error:  # the thread's boundary: whatever it is, it goes to the caller
            self.raised = error
