"""Follow a job on a machine to its end, through broken connections and servers that restart."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any, TextIO

from skymark.cloud.ending import find
from skymark.cloud.errors import CloudError, MachineLostError
from skymark.cloud.skypilot import sdk, wait
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


def follow(cluster: str, job: int, log: TextIO, say: Say, until_s: float | None) -> JobEnd:
    """Show a job's output until it ends.

    Args:
        cluster: where it runs.
        job: its number there.
        log: gets the output.
        say: told when the connection breaks.
        until_s: a moment of `time.time`, after which it is ended; None for no limit.

    Raises:
        MachineLostError: the machine is no longer there.
        CloudError: it could not be reached for a long time.
    """
    lost_s: float | None = None
    while True:
        tail = _Call(lambda: sdk().tail_logs(cluster, job, follow=True, output_stream=log))
        if not tail.wait(until_s):
            wait(sdk().cancel(cluster, job_ids=[job]))
            return JobEnd.TOO_LATE
        if tail.raised is None and tail.result in ENDS:
            return ENDS[tail.result]
        try:
            ended = _status(cluster, job)
            lost_s = None
        except (CloudError, UsageError) as error:
            if _is_gone(cluster):
                raise MachineLostError(
                    f"{cluster} is no longer there: its provider took it away, or somebody ended it"
                ) from error
            lost_s = lost_s or time.time()
            if time.time() - lost_s > UNREACHABLE_S:
                raise
            say(f"{cluster} does not answer ({error}); the run goes on there, trying again")
            ended = None
        if ended is not None:
            return ended
        if until_s is not None and time.time() > until_s:
            return JobEnd.TOO_LATE
        time.sleep(RETRY_S)


def _status(cluster: str, job: int) -> JobEnd | None:
    """Return how a job ended; None while it goes on."""
    sky = sdk()
    status = wait(sky.job_status(cluster, [job])).get(job)
    if status is None or not status.is_terminal():
        return None
    ends = {sky.JobStatus.SUCCEEDED: JobEnd.SUCCEEDED, sky.JobStatus.CANCELLED: JobEnd.CANCELLED}
    return ends.get(status, JobEnd.FAILED)


def _is_gone(cluster: str) -> bool:
    try:
        return find(cluster, refresh=True) is None
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
