"""A user's own job on a machine that is there: send its source, queue it, show it to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skymark.cloud.errors import CloudError
from skymark.cloud.lifecycle.following import Screen, follow
from skymark.cloud.order import UserJob
from skymark.cloud.sky.client import explained
from skymark.cloud.sky.clusters import find_cluster
from skymark.cloud.sky.jobs import JobEnd, MachineJob, await_job, request_job, send_source
from skymark.cloud.sky.tasks import make_user_task
from skymark.cloud.source import Source, new_submission
from skymark.model.errors import UsageError


def submit(cluster: str, job: UserJob, announce: Callable[[Source], None]) -> MachineJob:
    """Put a user's job into a machine's queue, with source of its own.

    Args:
        cluster: the machine.
        job: the user's.
        announce: told of the directory before anything is sent.

    Raises:
        UsageError: there is no such machine, it has not what the job takes of it, or a file may
            not be sent.
        CloudError: it did not take the job.
    """
    handle = handle_of(cluster)
    submission = new_submission()
    task, source = make_user_task(job, handle.launched_resources, submission)
    check_nodes(cluster, task.num_nodes, handle.launched_nodes)
    if source is not None:
        announce(source)
        send_source(cluster, handle.launched_nodes, source.directory, submission)
    with explained(f"{cluster} did not take the job"):
        return await_job(request_job(task, cluster), cluster)


def show(job: MachineJob, screen: Screen) -> bool:
    """Show a job's output until it ends; returns whether it succeeded.

    Raises:
        CloudError: the machine is gone, or out of reach for long.
    """
    return follow(job, screen.log, screen.say, None) is JobEnd.SUCCEEDED


def handle_of(cluster: str) -> Any:
    """Return SkyPilot's handle of a machine that is up.

    Raises:
        UsageError: there is none.
        CloudError: SkyPilot does not answer.
    """
    record = find_cluster(cluster, refresh=False)
    if record is None or record["handle"] is None:
        raise UsageError(f"there is no machine {cluster}; `skymark status` shows what is")
    if record["handle"].launched_resources is None:
        raise CloudError(f"{cluster} is not up yet")
    return record["handle"]


def check_nodes(cluster: str, wanted: int, there: int) -> None:
    """Refuse a job for more machines than a cluster has.

    Raises:
        UsageError: it is one.
    """
    if wanted > there:
        raise UsageError(f"--num-nodes {wanted}: {cluster} has {there}")
