"""Live machines: what there is, what runs there, another run, and their end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from skymark.cloud.ending import Say, end, find, hourly_price_usd
from skymark.cloud.errors import CloudError
from skymark.cloud.job import JobEnd, background, follow
from skymark.cloud.launch import GRACE_S, Ended, Screen, collect
from skymark.cloud.machine_kinds import make_run_task, set_limits
from skymark.cloud.order import Order
from skymark.cloud.secret_variables import secrets_for
from skymark.cloud.skypilot import explained, sdk, wait
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
    """Return every machine of skymark's that is there, asked of its provider."""
    sky = sdk()
    mode = sky.StatusRefreshMode.FORCE if refresh else sky.StatusRefreshMode.NONE
    records = wait(sky.status(refresh=mode))
    return [_live(one) for one in records if one["name"].startswith(PREFIX)]


def jobs(cluster: str) -> list[Job]:
    """Return the jobs of a machine, the newest first.

    Raises:
        UsageError: there is no such machine.
    """
    return [_job(one) for one in wait(sdk().queue(cluster))]


def show_log(cluster: str, job: int | None, log: TextIO, *, wait_for_end: bool) -> bool:
    """Show a job's output from its beginning.

    Args:
        cluster: where it runs.
        job: its number; None for the last.
        log: gets the output.
        wait_for_end: go on until it ends.

    Returns:
        Whether the job has not failed, so far.

    Raises:
        UsageError: there is no such machine or job.
    """
    with explained(f"the log of {cluster}"):
        code = background(
            lambda: sdk().tail_logs(cluster, job, follow=wait_for_end, output_stream=log)
        )
    if code == NO_SUCH_JOB:
        raise UsageError(f"{cluster} has no job {job}; `skymark queue {cluster}` shows its jobs")
    return code in {0, NOT_FINISHED}


def execute(order: Order, screen: Screen, results: Path, environment: Mapping[str, str]) -> Ended:
    """Run something else on a live machine, without set-up; the machine stays.

    Raises:
        UsageError: there is no such machine.
        CloudError: it did not take the job.
    """
    record = find(order.cluster, refresh=True)
    if record is None:
        raise UsageError(f"there is no machine {order.cluster}; `skymark status` shows what is")
    task = make_run_task(order, secrets_for(order.options, environment))
    launched = record["handle"].launched_resources
    task.set_resources(sdk().Resources(accelerators=launched.accelerators))
    set_limits(task, order.deadline_s, None)
    ended = Ended(order)
    with explained(f"{order.cluster} did not take the job"):
        job, _ = wait(sdk().exec(task, cluster_name=order.cluster))
    until_s = None if order.deadline_s is None else time.time() + order.deadline_s + GRACE_S
    try:
        ended.job = follow(order.cluster, int(job), screen.log, screen.say, until_s)
    except KeyboardInterrupt:
        wait(sdk().cancel(order.cluster, job_ids=[int(job)]))
        ended.interrupted = True
    except CloudError as error:
        ended.problems.append(str(error))
    if ended.job not in {JobEnd.SUCCEEDED, None}:
        ended.problems.append(f"the run on {order.cluster} {ended.job.value}")
    collect(order, results, screen, ended)
    return ended


def down(cluster: str, say: Say) -> float:
    """End a machine and return when it is gone, with the seconds that it took.

    Raises:
        UsageError: there is no such machine.
        StillBillingError: it does not end.
    """
    record = find(cluster, refresh=False)
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
