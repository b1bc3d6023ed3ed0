"""Slot workers and jobs of single groups, put into the queue of a cluster in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol

from skymark.cloud.errors import CloudError
from skymark.cloud.known_machines import turn_of
from skymark.cloud.lifecycle.stages import Quoted
from skymark.cloud.lifecycle.user_jobs import handle_of
from skymark.cloud.machine_script import UNTIL_VARIABLE, plan_file, secrets_file
from skymark.cloud.order import Order
from skymark.cloud.shared_jobs import (
    Cards,
    Outstanding,
    SlotJob,
    group_job_name,
    outstanding,
    submission_key,
)
from skymark.cloud.sky.client import explained
from skymark.cloud.sky.jobs import (
    MachineJob,
    await_job,
    cancel_jobs,
    queued_jobs,
    request_job,
    send_source,
    take_back,
)
from skymark.cloud.sky.ssh import output_of, send_directory
from skymark.cloud.sky.tasks import cards_of, make_slot_task
from skymark.cloud.source import job_name, source_directory
from skymark.cloud.stores import write_secrets
from skymark.execute.planner import write_plan
from skymark.held_interrupts import one_interrupt_held
from skymark.model.errors import SkymarkError, UsageError

IN_FLIGHT = 4
"""Requests at once. SkyPilot's API server on a user's machine keeps four workers for requests such
as these (``_MAX_LONG_WORKERS_LOCAL`` in ``sky/server/config.py`` of 0.14.1). For each more it
starts a process that imports SkyPilot: 64 of them were not through after ten minutes."""


class Queue(Protocol):
    """A queue that jobs are asked into by name."""

    def request(self, name: str) -> Any:
        """Ask for a job; returns the request."""

    def result(self, asked: Any) -> MachineJob:
        """Return the job of a request once it is in the queue.

        Raises:
            SkymarkError: it was refused, or taken back.
        """

    def take_back(self, asked: Sequence[Any]) -> None:
        """End requests that are still being worked at.

        Raises:
            SkymarkError: it is not known whether they have ended.
        """


def put_in_order(
    names: Iterable[str],
    queue: Queue,
    granted: Callable[[str, MachineJob], None],
    in_flight: int = IN_FLIGHT,
) -> None:
    """Put jobs into a queue; at the first refusal, or Ctrl-C, no further one is asked for.

    Args:
        names: of the jobs, in the order in which they are asked for.
        queue: takes them.
        granted: told of each that is in the queue, also of those that were on their way when
            another was refused.
        in_flight: requests at once.

    Raises:
        SkymarkError: one was refused; those that were asked for and not granted are taken back.
    """
    left = deque(names)
    asked: dict[str, Any] = {}
    try:
        while left or asked:
            while left and len(asked) < in_flight:
                _ask(left.popleft(), queue, asked)
            name = next(iter(asked))
            job = queue.result(asked[name])
            del asked[name]
            granted(name, job)
    except BaseException:
        _take_back(asked, queue, granted)
        raise


def _ask(name: str, queue: Queue, asked: dict[str, Any]) -> None:
    """Ask for a job and note the request; Ctrl-C counts when that is done."""
    with one_interrupt_held() as held:
        asked[name] = queue.request(name)
    if held.came:
        raise KeyboardInterrupt


def _take_back(
    asked: Mapping[str, Any], queue: Queue, granted: Callable[[str, MachineJob], None]
) -> None:
    """Take requests back, and tell of those that were granted before."""
    try:
        queue.take_back(list(asked.values()))
    except SkymarkError:
        return  # no answer may come for them
    for name, one in asked.items():
        with suppress(SkymarkError):
            granted(name, queue.result(one))


class Submitted(NamedTuple):
    """The jobs of a submission, and the run that they work on."""

    run_id: str
    jobs: tuple[MachineJob, ...]


def cluster_cards(cluster: str) -> Cards | None:
    """Return the accelerators of a cluster of one machine; None where it has none.

    Raises:
        UsageError: there is no such cluster, or it has several machines, whose disks they do not
            share.
        CloudError: SkyPilot does not answer.
    """
    handle = handle_of(cluster)
    if handle.launched_nodes > 1:
        raise UsageError(
            f"{cluster} has {handle.launched_nodes} machines, and workers find what others have "
            "taken on one disk; give a cluster of one machine, or exec with --num-nodes"
        )
    return cards_of(handle.launched_resources)


def submit(quoted: Quoted, jobs: Sequence[SlotJob], announce: Callable[[str], None]) -> Submitted:
    """Put the jobs of slot workers into a cluster's queue; where one fails, none is left in it.

    Args:
        quoted: the run; its order has a submission.
        jobs: of `skymark.cloud.shared_jobs`.
        announce: told what is waited for, and of each job that is in the queue.

    Raises:
        UsageError: there is no such cluster, or it has not what a job takes.
        CloudError: it did not take them.
    """
    order = quoted.order
    named = {
        job_name(f"{order.run_id}-slots-{number}"): job for number, job in enumerate(jobs, start=1)
    }
    queued: list[MachineJob] = []

    def granted(name: str, job: MachineJob) -> None:
        del name
        queued.append(job)
        announce(f"{len(queued)} of {len(jobs)} jobs are in the queue of {order.cluster}")

    with turn_of(order.cluster, announce):
        try:
            queue_named(quoted, named, granted)
        except BaseException:
            with suppress(CloudError):
                cancel_jobs(order.cluster, [job.number for job in queued])
            _remove_secrets(quoted, named)
            raise
    return Submitted(order.run_id, tuple(queued))


def queue_named(
    quoted: Quoted,
    jobs: Mapping[str, SlotJob],
    granted: Callable[[str, MachineJob], None],
) -> None:
    """Send source, plan and secrets to a cluster, and put jobs by name into its queue.

    Args:
        quoted: the run; its order has a submission.
        jobs: by names that no other job of the run has, in the order in which they are to begin.
        granted: told of each that is in the queue.

    Raises:
        UsageError: there is no such cluster, or it has not what a job takes.
        CloudError: it did not take one; no further one was asked for.
    """
    order = quoted.order
    assert order.submission is not None
    launched = handle_of(order.cluster).launched_resources
    tasks = {name: make_slot_task(order, job, name, launched) for name, job in jobs.items()}
    until_s = _until_s(quoted)
    for task in tasks.values():
        task.update_envs({UNTIL_VARIABLE: str(until_s)})
    send_source(order.cluster, 1, order.source or source_directory(), order.submission)
    _send_files(quoted, list(tasks))
    unused = set(tasks)

    def noted(name: str, job: MachineJob) -> None:
        unused.discard(name)
        granted(name, job)

    try:
        put_in_order(tasks, ClusterQueue(order.cluster, tasks), noted)
    except BaseException:
        _remove_secrets(quoted, unused)
        raise


@dataclass(frozen=True)
class ClusterQueue:
    """A cluster's queue. Implements `skymark.cloud.lifecycle.slot_queue.Queue`."""

    cluster: str
    tasks: Mapping[str, Any]
    """SkyPilot's, by the names of the jobs."""

    def request(self, name: str) -> Any:
        """Ask for a job."""
        with explained(f"{self.cluster} did not take {name}"):
            return request_job(self.tasks[name], self.cluster)

    def result(self, asked: Any) -> MachineJob:
        """Return the job of a request once it is in the queue."""
        with explained(f"{self.cluster} did not take a job"):
            return await_job(asked, self.cluster)

    def take_back(self, asked: Sequence[Any]) -> None:
        """End requests that are still being worked at."""
        take_back(asked)


def _until_s(quoted: Quoted) -> int:
    """Return the moment of the machine's own clock when the ceiling is used up; 0 for no ceiling.

    Raises:
        CloudError: the machine does not answer.
    """
    if quoted.order.max_cost_usd is None or quoted.limit_s is None:
        return 0
    up_s, _, _ = output_of(quoted.order.cluster, ("cat", "/proc/uptime")).partition(".")
    if not up_s.isdecimal():
        raise CloudError(
            f"{quoted.order.cluster} does not tell its clock, so the ceiling cannot be kept there; "
            "nothing was queued; try again"
        )
    return int(up_s) + quoted.limit_s


def _send_files(quoted: Quoted, names: Sequence[str]) -> None:
    """Copy the plan of a run, and its secrets once for each job, which takes them away."""
    with TemporaryDirectory() as place:
        write_plan(quoted.plan, Path(place, plan_file(quoted.order.run_id)))
        for name in names if quoted.secrets else ():
            write_secrets(Path(place, secrets_file(name)), quoted.secrets)
        send_directory(quoted.order.cluster, Path(place))


def _remove_secrets(quoted: Quoted, names: Iterable[str]) -> None:
    """Remove the secrets of jobs that will not begin."""
    files = [secrets_file(name) for name in names] if quoted.secrets else []
    if files:
        with suppress(SkymarkError):  # they go with the machine at the latest
            output_of(quoted.order.cluster, ("rm", "-f", *files))


NAMED = 5
"""Groups that a message names; the rest is counted."""


def submit_groups(
    quoted: Quoted, jobs: Sequence[SlotJob], announce: Callable[[str], None]
) -> Submitted:
    """Put a job for each group into a cluster's queue, in order; stop at the first refusal.

    What is in the queue then stays there, and another submission of the same is for the rest.

    Args:
        quoted: the run; its order has a submission.
        jobs: of `skymark.cloud.shared_jobs.job_per_group`.
        announce: told what is waited for, and of each job that is in the queue.

    Raises:
        UsageError: there is no such cluster, or it has not what a job takes.
        CloudError: it did not take one.
    """
    order = quoted.order
    key = submission_key(quoted.plan, order)
    with turn_of(order.cluster, announce):
        rest = outstanding_groups(order, key, jobs, announce)
        order = order.model_copy(update={"run_id": rest.run_id or order.run_id})
        named = {
            group_job_name(order.run_id, key, job.groups[0]): job
            for job in jobs
            if job.groups[0] in rest.groups
        }
        queued: dict[str, MachineJob] = {}

        def granted(name: str, job: MachineJob) -> None:
            queued[name] = job
            announce(f"{len(queued)} of {len(named)}: {named[name].groups[0]} is job {job.number}")

        if named:
            try:
                queue_named(replace(quoted, order=order), named, granted)
            except SkymarkError as error:
                if not queued:
                    raise
                raise CloudError(f"{error}; {_left(named, queued)}") from error
            except KeyboardInterrupt:
                announce(_left(named, queued))
                raise
    return Submitted(order.run_id, tuple(queued.values()))


def outstanding_groups(
    order: Order, key: str, jobs: Sequence[SlotJob], announce: Callable[[str], None]
) -> Outstanding:
    """Return the groups that a submission would be for, by what the cluster's queue has now.

    Args:
        order: names the cluster.
        key: of the submission.
        jobs: of `skymark.cloud.shared_jobs.job_per_group`.
        announce: told how many have a job already.

    Raises:
        UsageError: there is no such cluster.
        CloudError: its queue cannot be read.
    """
    rest = outstanding([job.groups[0] for job in jobs], key, queued_jobs(order.cluster))
    if len(rest.groups) < len(jobs):
        announce(
            f"{len(jobs) - len(rest.groups)} of {len(jobs)} groups have a job that waits, runs or "
            f"is done on {order.cluster}"
        )
    return rest


def _left(named: Mapping[str, SlotJob], queued: Mapping[str, MachineJob]) -> str:
    """Return what is in the queue and what is not, in words."""
    left = [job.groups[0] for name, job in named.items() if name not in queued]
    shown = ", ".join(left[:NAMED])
    more = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
    numbers = " ".join(str(job.number) for job in queued.values())
    there = f"in the queue: jobs {numbers}" if queued else "no job is in the queue"
    return f"{there}; not in it: {shown}{more}; the same command again submits those that are not"
