"""Live machines: what there is, what runs there, and their end."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any, TextIO

from skymark.cloud import managed
from skymark.cloud.ending import Say, end, find, hourly_price_usd
from skymark.cloud.job import JobEnd, background
from skymark.cloud.skypilot import ask, explained, sdk
from skymark.model.base import Frozen
from skymark.model.errors import UsageError

PREFIX = "skymark-"

NOT_FINISHED = 101
NO_SUCH_JOB = 102
"""What SkyPilot's `tail_logs` returns."""


class Live(Frozen):
    """A cluster that is there, whatever its state."""

    name: str
    status: str
    machine: str
    nodes: int
    launched_at: datetime | None
    idle_minutes: int | None
    """Minutes without a job after which it ends; None where no timer is set."""
    hourly_price_usd: float | None
    cost_usd: float | None
    """So far."""


class Job(Frozen):
    """One job of a machine's queue."""

    id: int
    name: str
    status: str
    submitted_at: datetime | None
    seconds: float | None


def live_machines(*, refresh: bool = True) -> list[Live]:
    """Return every machine of skymark's that is there, and every managed job that goes on.

    Args:
        refresh: ask the providers, instead of telling what was known last.
    """
    modes = sdk().StatusRefreshMode
    mode = modes.FORCE if refresh else modes.NONE
    records = ask(lambda sky: sky.status(refresh=mode))
    jobs = [_managed(one) for one in managed.records(going_on=True)]
    return [one for one in (*map(_live, records), *jobs) if one.name.startswith(PREFIX)]


def jobs(cluster: str) -> list[Job]:
    """Return the jobs of a machine, the newest first.

    Raises:
        UsageError: there is no such machine.
    """
    return [_job(one) for one in ask(lambda sky: sky.queue(cluster))]


def show_log(cluster: str, job: int | None, log: TextIO, *, wait_for_end: bool) -> bool:
    """Show a job's output from its beginning.

    Args:
        cluster: where it runs; or the name of a managed job, which has no number.
        job: its number; None for the last.
        log: gets the output.
        wait_for_end: go on until it ends.

    Returns:
        Whether the job has not failed, so far.

    Raises:
        UsageError: there is no such machine or job, or a managed job was given a number.
    """
    how = {"follow": wait_for_end, "output_stream": log}
    one = managed.find_job(cluster) if find(cluster, refresh=False) is None else None
    if one is not None and job is not None:
        raise UsageError(f"{cluster} is one managed job; leave out the number {job}")
    with explained(f"the log of {cluster}"):
        if one is not None:
            background(lambda: sdk().jobs.tail_logs(job_id=one.number, **how))
            return one.ended() in {None, JobEnd.SUCCEEDED}
        code = background(lambda: sdk().tail_logs(cluster, job, **how))
    if code == NO_SUCH_JOB:
        raise UsageError(f"{cluster} has no job {job}; `skymark queue {cluster}` shows its jobs")
    return code in {0, NOT_FINISHED}


def down(cluster: str, say: Say) -> float:
    """End a machine, or a managed job, and return when it is gone, with the seconds that it took.

    Raises:
        UsageError: there is none.
        StillBillingError: it does not end.
    """
    record = find(cluster, refresh=False)
    job = managed.find_job(cluster) if record is None else None
    if job is not None:
        return managed.end_job(job, say)
    if record is None:
        raise UsageError(f"there is no machine {cluster}; `skymark status` shows what is")
    return end(cluster, say, record)


def _live(record: Any) -> Live:
    hourly_usd = hourly_price_usd(record["handle"])
    launched = record["launched_at"]
    cost_usd = None
    if hourly_usd is not None and launched is not None:
        cost_usd = hourly_usd * (time.time() - launched) / 3600
    minutes = record["autostop"]
    return Live(
        name=record["name"],
        status=record["status"].value,
        machine=str(record["resources_str"]),
        nodes=record["nodes"],
        launched_at=None if launched is None else datetime.fromtimestamp(launched, UTC),
        idle_minutes=minutes if minutes is not None and minutes >= 0 else None,
        hourly_price_usd=hourly_usd,
        cost_usd=cost_usd,
    )


def _managed(record: Any) -> Live:
    submitted = record.submitted_at
    return Live(
        name=record.job_name,
        status=f"managed, {record.status.value}",
        machine=record.cluster_resources or "none yet",
        nodes=1,
        launched_at=None if submitted is None else datetime.fromtimestamp(submitted, UTC),
        idle_minutes=None,
        hourly_price_usd=None,
        cost_usd=None,
    )


def _job(one: Any) -> Job:
    submitted, began = one["submitted_at"], one["start_at"]
    until = one["end_at"] or time.time()
    return Job(
        id=one["job_id"],
        name=one["job_name"],
        status=one["status"].value,
        submitted_at=None if not submitted else datetime.fromtimestamp(submitted, UTC),
        seconds=None if not began or began < 0 else until - began,
    )
