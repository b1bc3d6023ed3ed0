"""Jobs in the queue of a cluster: begin, list, follow and end them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TextIO

from skymark.cloud.sky.client import ask, request, response_of, sdk
from skymark.cloud.sky.clusters import find_cluster
from skymark.model.base import Frozen

NOT_FINISHED = 101
NO_SUCH_JOB = 102
"""Returned by SkyPilot's `tail_logs`."""


class JobEnd(StrEnum):
    """The end of a job."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TOO_LATE = "too late"
    """It was still running when its time was up."""
    UNSTORED = "is not stored"
    """All is measured, and it only waits for a store that takes nothing."""


ENDS = {0: JobEnd.SUCCEEDED, 100: JobEnd.FAILED, 103: JobEnd.CANCELLED}
"""Returned by SkyPilot's `tail_logs`, where that is an end."""

_BY_STATUS = {"SUCCEEDED": JobEnd.SUCCEEDED, "CANCELLED": JobEnd.CANCELLED}


def end_of(status: Any) -> JobEnd | None:
    """Return the end that a status of SkyPilot's means; None while the job goes on."""
    if status is None or not status.is_terminal():
        return None
    return _BY_STATUS.get(status.value, JobEnd.FAILED)


class QueuedJob(Frozen):
    """One job of a cluster's queue."""

    id: int
    name: str
    user: str
    resources: str
    """That it takes, such as ``1x[CPU:0.5+]``."""
    status: str
    is_going_on: bool
    """Whether it waits or runs."""
    submitted_at: datetime | None
    started_at: datetime | None
    """None where it has not begun."""
    seconds: float | None
    """That it has run; None where it has not begun."""


@dataclass(frozen=True)
class MachineJob:
    """A job of a cluster. Implements `skymark.cloud.lifecycle.following.RunningJob`."""

    name: str
    """The cluster's."""
    number: int

    def show(self, log: TextIO) -> int | None:
        """Write its output until it ends."""
        return show_output(self.name, self.number, log)

    def ended(self) -> JobEnd | None:
        """Return its end; None while it goes on."""
        return end_of(ask(lambda sky: sky.job_status(self.name, [self.number])).get(self.number))

    def is_lost(self) -> bool:
        """Whether the provider has the cluster no longer."""
        return find_cluster(self.name, refresh=True) is None

    def failure(self) -> None:
        """Return None: its output says why."""

    def stop(self) -> None:
        """Take it from the queue, or end it."""
        cancel_jobs(self.name, [self.number])


def request_cluster(task: Any, cluster: str, idle_minutes: int) -> Any:
    """Ask for a cluster with its idle timer armed, and a job on it; returns the request.

    Not made again where the server is away: it may have been heard.
    """
    return sdk().launch(
        task, cluster_name=cluster, down=True, idle_minutes_to_autostop=idle_minutes
    )


def request_job(task: Any, cluster: str) -> Any:
    """Ask for a job on a cluster that is up; returns the request."""
    return request(lambda sky: sky.exec(task, cluster_name=cluster))


def await_cluster(asked: Any, cluster: str, log: TextIO, timeout_s: float) -> MachineJob:
    """Return the job of `request_cluster` once the cluster is up.

    Raises:
        TimeoutError: it is not up in time.
    """
    number, _ = response_of(asked, log, timeout_s)
    return MachineJob(cluster, int(number))


def await_job(asked: Any, cluster: str) -> MachineJob:
    """Return the job of `request_job` once it is in the queue."""
    number, _ = sdk().get(asked)
    return MachineJob(cluster, int(number))


def take_back(requests: Sequence[Any]) -> None:
    """End requests that are still being worked at."""
    if requests:
        ask(lambda sky: sky.api_cancel(list(requests), silent=True))


def queued_jobs(cluster: str, *, skip_finished: bool = False) -> list[QueuedJob]:
    """Return the jobs of a cluster, of all its users, the newest first.

    Args:
        cluster: its name.
        skip_finished: only waiting or running jobs.

    Raises:
        UsageError: there is no such cluster.
    """
    jobs = ask(lambda sky: sky.queue(cluster, skip_finished=skip_finished, all_users=True))
    return [_queued(job) for job in jobs]


def cancel_jobs(cluster: str, numbers: Sequence[int]) -> None:
    """End jobs of a cluster, the newest first, so that none begins because another has ended."""
    if numbers:
        ask(lambda sky: sky.cancel(cluster, job_ids=list(numbers)))


def show_output(
    cluster: str, job: int | None, log: TextIO, *, follow: bool = True, tail: int = 0
) -> int | None:
    """Write a job's output, the last one's for None; returns what SkyPilot's `tail_logs` does."""
    code: int | None = sdk().tail_logs(cluster, job, follow=follow, tail=tail, output_stream=log)
    return code


def _queued(job: Any) -> QueuedJob:
    submitted, began = job["submitted_at"], job["start_at"]
    until = job["end_at"] or time.time()
    return QueuedJob(
        id=job["job_id"],
        name=job["job_name"],
        user=job["username"],
        resources=job["resources"],
        status=job["status"].value,
        is_going_on=not job["status"].is_terminal(),
        submitted_at=None if not submitted else datetime.fromtimestamp(submitted, UTC),
        started_at=None if not began or began < 0 else datetime.fromtimestamp(began, UTC),
        seconds=None if not began or began < 0 else until - began,
    )
