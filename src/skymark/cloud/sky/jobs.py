"""Jobs of SkyPilot: in a cluster's queue, and managed jobs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TextIO

from skymark.cloud.cost.bill import MachineCost, bill_of_all
from skymark.cloud.sky.client import ask, request, response_of, sdk, sky_program
from skymark.cloud.sky.clusters import LiveMachine, costs_of, find_cluster
from skymark.cloud.sky.internals import (
    MANAGED_JOB_FILES,
    is_api_server_here,
    managed_cluster_name,
    runs_job_controllers,
)
from skymark.cloud.submissions import KnownJob
from skymark.model.errors import CloudError, UsageError

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


class QueuedJob(KnownJob):
    """One job of a cluster's queue."""

    user: str
    resources: str
    """That it takes, such as ``1x[CPU:0.5+]``."""
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


FIELDS = (
    "job_id",
    "job_name",
    "status",
    "submitted_at",
    "cluster_resources",
    "failure_reason",
)
"""Asked of SkyPilot about a job."""


WAITING = ("PENDING", "SUBMITTED", "STARTING")
"""SkyPilot's words for a job that has no machine yet."""


@dataclass(frozen=True)
class ManagedJob:
    """A job that SkyPilot keeps going on one machine after another.

    Implements `skymark.cloud.lifecycle.following.RunningJob`.
    """

    name: str
    number: int

    @property
    def machine(self) -> str:
        """The name that each of its machines has with SkyPilot."""
        return managed_cluster_name(self.name, self.number)

    def show(self, log: TextIO, *, follow: bool = True, tail: int = 0) -> int | None:
        """Write the output of its machines, up to now or until it ends."""
        code: int | None = sdk().jobs.tail_logs(
            job_id=self.number,
            follow=follow,
            tail=tail or None,
            output_stream=log,
        )
        return code

    def ended(self) -> JobEnd | None:
        """Return its end; None while it goes on."""
        return end_of(self._record().status)

    def waits_for_machine(self) -> bool:
        """Whether it has no machine yet."""
        return self._record().status.value in WAITING

    def end(self) -> bool:
        """Cancel it unless it is already cancelled; return whether it has ended."""
        status = self._record().status
        if not status.is_terminal() and status.value != "CANCELLING":
            self.stop()
        return bool(status.is_terminal())

    def failure(self) -> str | None:
        """Return why it failed, as SkyPilot has it."""
        return self._record().failure_reason or None

    def is_lost(self) -> bool:
        """Never: SkyPilot rents the next machine."""
        return False

    def stop(self) -> None:
        """End it, and its machine."""
        ask(lambda sky: sky.jobs.cancel(job_ids=[self.number]))

    def machines(self) -> list[MachineCost]:
        """Return the costs of the machines that it had; one at most has not ended."""
        return costs_of(self.machine)

    def remove_plain_files(self) -> None:
        """Remove the files with the job's secrets, where the API server is this machine's.

        SkyPilot has them in its database too, and reads them there for the next machine; but its
        own configuration, which has no secret of ours, it reads from the file.
        """
        if is_api_server_here():
            for path in MANAGED_JOB_FILES.expanduser().glob(f"{self.name}-*"):
                if path.suffix != ".config_yaml":
                    path.unlink(missing_ok=True)

    def _record(self) -> Any:
        """Return SkyPilot's record of it.

        Raises:
            CloudError: there is none.
        """
        records = [record for record in _records() if record.job_id == self.number]
        if not records:
            raise CloudError(f"SkyPilot knows no managed job {self.number} ({self.name})")
        return records[0]


def request_managed_job(task: Any, name: str, secrets: Mapping[str, str]) -> Any:
    """Ask for a managed job; returns the request."""
    task.update_secrets(dict(secrets))
    return sdk().jobs.launch(task, name=name)


def await_managed_job(asked: Any, name: str, log: TextIO) -> ManagedJob:
    """Return the job of `request_managed_job` once SkyPilot has taken it."""
    numbers, _ = response_of(asked, log)
    return ManagedJob(name, numbers[0])


def find_managed_job(name: str) -> ManagedJob | None:
    """Return the managed job of a name, or None."""
    numbers = [record.job_id for record in _records() if record.job_name == name]
    return ManagedJob(name, max(numbers)) if numbers else None


def known_managed_jobs() -> list[KnownJob]:
    """Return every managed job that SkyPilot knows, including ended jobs."""
    return [
        KnownJob(id=record.job_id, name=record.job_name, status=record.status.value)
        for record in _records()
    ]


def live_managed_jobs() -> list[LiveMachine]:
    """Return every managed job that has not ended."""
    return [_live(record) for record in _records(going_on=True)]


def check_controller() -> None:
    """Refuse where the controller of managed jobs would be a machine to pay for.

    Raises:
        UsageError: SkyPilot is not installed, or its API server here does not run controllers
            itself.
    """
    sdk()
    if is_api_server_here() and not runs_job_controllers():
        raise UsageError(
            "SkyPilot would rent another machine to watch over managed jobs; put "
            "'jobs: {controller: {consolidation_mode: true}}' into ~/.sky/config.yaml, then run "
            f"{sky_program()} api stop; {sky_program()} api start"
        )


def _records(*, going_on: bool = False) -> list[Any]:
    """Return SkyPilot's records of every managed job, or only of active jobs."""
    try:
        records, *_ = ask(
            lambda sky: sky.jobs.queue_v2(refresh=False, skip_finished=going_on, fields=FIELDS)
        )
    except UsageError:  # there is no controller: nobody ever began one
        return []
    return list(records)


def _live(record: Any) -> LiveMachine:
    submitted = record.submitted_at
    hourly_usd, cost_usd = _price_of(ManagedJob(record.job_name, record.job_id))
    return LiveMachine(
        name=record.job_name,
        status=f"managed, {record.status.value}",
        machine=record.cluster_resources or "none yet",
        nodes=1,
        launched_at=None if submitted is None else datetime.fromtimestamp(submitted, UTC),
        idle_minutes=None,
        hourly_price_usd=hourly_usd,
        cost_usd=cost_usd,
    )


def _price_of(job: ManagedJob) -> tuple[float | None, float | None]:
    """Return the price per hour of the machine that a job has now, and the cost of all it had."""
    machines = job.machines()
    rented_now = [machine for machine in machines if not machine.ended]
    now = bill_of_all(rented_now, None)
    so_far = bill_of_all(machines, None)
    return (
        None if now is None else now.hourly_price_usd,
        None if so_far is None else so_far.price_usd,
    )
