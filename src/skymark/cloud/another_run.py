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
from skymark.cloud.launch import GRACE_S, Ended, Screen, begin, collect, noted
from skymark.cloud.live import jobs
from skymark.cloud.machine_kinds import make_run_task, set_limits
from skymark.cloud.order import Order
from skymark.cloud.results import await_outcome
from skymark.cloud.secret_variables import secrets_for, send_secrets
from skymark.cloud.skypilot import ask, explained, request, sdk
from skymark.model.errors import UsageError


def execute(
    orders: Sequence[Order], screen: Screen, results: Path, variables: Mapping[str, str]
) -> list[Ended]:
    """Run something else on a live machine, without set-up; the machine stays.

    Args:
        orders: one run each, all on the same machine.
        screen: who is told. Ctrl-C takes back what has not ended, and brings home what it measured.
        results: directory of runs; each of these gets a directory of its own there.
        variables: the caller's, for secrets.

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
    all_ended = [Ended(order) for order in orders]
    left = list(all_ended)
    try:
        _queue(all_ended, record["handle"].launched_resources, screen, variables)
        while left:
            _see_through(left[0], screen)
            collect(left[0].order, results, screen, left[0])
            del left[0]
    except KeyboardInterrupt:
        if left:
            _stop(left, screen, results)
    return all_ended


def _queue(
    all_ended: Sequence[Ended], launched: Any, screen: Screen, variables: Mapping[str, str]
) -> None:
    """Put every run into the machine's queue; where one does not get there, none is left in it."""
    try:
        for place, ended in enumerate(all_ended):
            order = ended.order
            send_secrets(order, secrets_for(order.options, variables))
            task = make_run_task(order)
            task.name = _job_name(order)
            if place > 0:  # the source is there, and stays the same for all
                task.workdir = None
            task.set_resources(sdk().Resources(accelerators=launched.accelerators))
            set_limits(task, order.deadline_s, None)
            ended.started = _submit(task, ended)
            screen.say(f"{order.run_id} is job {ended.started.number} of {order.cluster}")
    except Exception:
        _take_back(all_ended)
        raise


def _job_name(order: Order) -> str:
    return re.sub("[^A-Za-z0-9]+", "-", order.run_id).strip("-")


def _submit(task: Any, ended: Ended) -> MachineJob:
    cluster = ended.order.cluster
    with explained(f"{cluster} did not take the job"):
        begin(ended, lambda: request(lambda sky: sky.exec(task, cluster_name=cluster)))
        number, _ = sdk().get(ended.hiring)
        ended.hiring = None
    return MachineJob(cluster, int(number))


def _see_through(ended: Ended, screen: Screen) -> None:
    """Follow a run to its end; what is wrong becomes a problem, not an error."""
    assert ended.started is not None
    deadline_s = ended.order.deadline_s
    until_s = None if deadline_s is None else time.time() + deadline_s + GRACE_S
    with noted(ended):
        ended.job = follow(ended.started, screen.log, screen.say, until_s)
    if ended.job not in {JobEnd.SUCCEEDED, None}:
        ended.problems.append(f"the run on {ended.order.cluster} {ended.job.value}")


def _stop(left: Sequence[Ended], screen: Screen, results: Path) -> None:
    """End runs, and bring home what those measured that had begun."""
    screen.say("taking back what has not ended")
    begun = _take_back(left)
    for ended in left:
        ended.interrupted = True
        order = ended.order
        if _job_name(order) not in begun:
            ended.problems.append("it had not begun, and was taken back")
            continue
        with noted(ended, "the run could not be stopped: "):
            await_outcome(order.cluster, order.num_nodes, order.run_id)
        collect(order, results, screen, ended)


def _take_back(all_ended: Sequence[Ended]) -> set[str]:
    """End every job of some runs that has not ended; returns the names of those that had begun.

    Raises:
        CloudError: it is not known whether they have ended.
    """
    cluster = all_ended[0].order.cluster
    names = {_job_name(ended.order) for ended in all_ended}
    on_the_way = [ended.hiring for ended in all_ended if ended.hiring is not None]
    try:
        if on_the_way:
            ask(lambda sky: sky.api_cancel(on_the_way, silent=True))
        found = [job.id for job in jobs(cluster) if job.name in names]
        if found:
            # It ends the newest first, so that none begins because another one has ended.
            ask(lambda sky: sky.cancel(cluster, job_ids=found))
        return {job.name for job in jobs(cluster) if job.seconds is not None} & names
    except CloudError as error:
        raise CloudError(
            f"what was queued may go on ({error}); `skymark queue {cluster}` shows it, and "
            f"`skymark down {cluster}` ends it with the machine"
        ) from error
