"""Slot workers in the queue of a cluster: source, plan and secrets are sent, then their jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from skymark.cloud.errors import CloudError
from skymark.cloud.known_machines import turn_of
from skymark.cloud.lifecycle.queuing import put_in_order
from skymark.cloud.lifecycle.stages import Quoted
from skymark.cloud.lifecycle.user_jobs import handle_of
from skymark.cloud.machine_script import UNTIL_VARIABLE, plan_file, secrets_file
from skymark.cloud.secret_variables import write_secrets
from skymark.cloud.sky.client import explained
from skymark.cloud.sky.jobs import MachineJob, await_job, cancel_jobs, request_job, take_back
from skymark.cloud.sky.slot_tasks import cards_of, make_slot_task
from skymark.cloud.sky.sources import send_source
from skymark.cloud.sky.ssh import output_of, send_directory
from skymark.cloud.slots import Cards, SlotJob
from skymark.cloud.source import source_directory
from skymark.cloud.submission import job_name
from skymark.execute.plan_file import write_plan
from skymark.model.errors import SkymarkError, UsageError


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
        jobs: of `skymark.cloud.slots`.
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
    """A cluster's queue. Implements `skymark.cloud.lifecycle.queuing.Queue`."""

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
