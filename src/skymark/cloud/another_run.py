"""More runs on a machine that is there already: queued at once, seen through one by one."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skymark.cloud.ending import find
from skymark.cloud.errors import CloudError
from skymark.cloud.job import JobEnd, MachineJob, follow
from skymark.cloud.launch import GRACE_S, Ended, Screen, collect
from skymark.cloud.machine_kinds import make_run_task, set_limits
from skymark.cloud.order import Order
from skymark.cloud.secret_variables import secrets_for
from skymark.cloud.skypilot import ask, explained, sdk
from skymark.model.errors import UsageError


def execute(
    orders: Sequence[Order], screen: Screen, results: Path, environment: Mapping[str, str]
) -> list[Ended]:
    """Run something else on a live machine, without set-up; the machine stays.

    Args:
        orders: one run each, all on the same machine.
        screen: who is told; Ctrl-C takes every run back that has not ended.
        results: directory of runs; each of these gets a directory of its own there.
        environment: the caller's, for secrets.

    Returns:
        How each ended, in the order given.

    Raises:
        UsageError: there is no such machine.
        CloudError: it did not take the jobs; none of them is left in its queue.
    """
    cluster = orders[0].cluster
    record = find(cluster, refresh=True)
    if record is None:
        raise UsageError(f"there is no machine {cluster}; `skymark status` shows what is")
    jobs = _queue(orders, record["handle"].launched_resources, screen, environment)
    all_ended: list[Ended] = []
    interrupted = False
    for place, (order, job) in enumerate(zip(orders, jobs, strict=True)):
        ended = Ended(order)
        try:
            if not interrupted:
                _see_through(job, screen, ended)
        except KeyboardInterrupt:
            interrupted = True
            _take_back(jobs[place:])
        ended.interrupted = interrupted
        collect(order, results, screen, ended)
        all_ended.append(ended)
    return all_ended


def _queue(
    orders: Sequence[Order], launched: Any, screen: Screen, environment: Mapping[str, str]
) -> list[MachineJob]:
    """Put every run into the machine's queue, or none."""
    queued: list[MachineJob] = []
    try:
        for order in orders:
            task = make_run_task(order, secrets_for(order.options, environment))
            task.name = re.sub("[^A-Za-z0-9]+", "-", order.run_id).strip("-")
            if queued:  # the source is there, and stays the same for all
                task.workdir = None
            task.set_resources(sdk().Resources(accelerators=launched.accelerators))
            set_limits(task, order.deadline_s, None)
            job = _submit(task, order.cluster)
            queued.append(job)
            screen.say(f"{order.run_id} is job {job.number} of {order.cluster}")
    except BaseException:
        _take_back(queued)
        raise
    return queued


def _submit(task: Any, cluster: str) -> MachineJob:
    with explained(f"{cluster} did not take the job"):
        number, _ = ask(lambda sky: sky.exec(task, cluster_name=cluster))
    return MachineJob(cluster, int(number))


def _take_back(jobs: Sequence[MachineJob]) -> None:
    """End jobs, or take them from the queue."""
    if jobs:
        numbers = [job.number for job in jobs]
        ask(lambda sky: sky.cancel(jobs[0].name, job_ids=numbers))


def _see_through(job: MachineJob, screen: Screen, ended: Ended) -> None:
    """Follow a run to its end; what is wrong becomes a problem, not an error."""
    deadline_s = ended.order.deadline_s
    until_s = None if deadline_s is None else time.time() + deadline_s + GRACE_S
    try:
        ended.job = follow(job, screen.log, screen.say, until_s)
    except CloudError as error:
        ended.problems.append(str(error))
    if ended.job not in {JobEnd.SUCCEEDED, None}:
        ended.problems.append(f"the run on {job.name} {ended.job.value}")
