"""Jobs in the queue of an existing machine: send their files, then request each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from skymark.cloud.known_machines import turn_of, write_secrets
from skymark.cloud.lifecycle.stages import Quoted
from skymark.cloud.machine_script import UNTIL_VARIABLE, plan_file, secrets_file
from skymark.cloud.rented_run import RentedRun
from skymark.cloud.sky.client import explained
from skymark.cloud.sky.clusters import handle_of
from skymark.cloud.sky.jobs import (
    MachineJob,
    await_job,
    cancel_jobs,
    queued_jobs,
    request_job,
    take_back,
)
from skymark.cloud.sky.ssh import output_of, send_directory, send_source
from skymark.cloud.sky.tasks import cards_of, make_slot_task
from skymark.cloud.source import source_directory
from skymark.cloud.submissions import (
    OutstandingGroups,
    group_job_name,
    job_name,
    outstanding_groups,
    submission_key,
)
from skymark.execute.planner import write_plan
from skymark.execute.slots import Cards, SlotJob
from skymark.held_interrupts import undivided
from skymark.model.errors import CloudError, SkymarkError, UsageError
from skymark.model.plan import Plan
from skymark.model.sizes import some_of

IN_FLIGHT = 4
"""Requests at once. SkyPilot's API server on a user's machine keeps four workers for requests such
as these (``_MAX_LONG_WORKERS_LOCAL`` in ``sky/server/config.py`` of 0.14.1). For each more it
starts a process that imports SkyPilot: 64 of them were not through after ten minutes."""


class RequestInFlight:
    """At most one request for a machine or a job, from when it is made until it is granted."""

    def __init__(self) -> None:
        self._asked: Any = None

    def make(self, call: Callable[[], Any]) -> Any:
        """Make a request, note it and return it.

        Ctrl-C counts when that is done: of a request that is half made nobody knows whether it was
        heard. A second one counts at once.
        """
        with undivided():
            self._asked = call()
        return self._asked

    def granted(self) -> None:
        """Forget it: there is nothing to take back any more."""
        self._asked = None

    def take_back(self) -> None:
        """End it, if it has not been granted.

        Raises:
            CloudError: it is not known whether it has ended.
        """
        if self._asked is not None:
            take_back([self._asked])
            self._asked = None


@dataclass(frozen=True)
class ClusterQueue:
    """Queue of a cluster, into which jobs are submitted by name."""

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


def put_in_order(
    names: Iterable[str],
    queue: ClusterQueue,
    granted: Callable[[str, MachineJob], None],
    in_flight: int = IN_FLIGHT,
) -> None:
    """Put jobs into a queue; stop at the first refusal, or at Ctrl-C.

    Args:
        names: of the jobs, in order of submission.
        queue: takes them.
        granted: gets each job in the queue, including requests in flight at a refusal.
        in_flight: number of parallel requests.

    Raises:
        SkymarkError: a job was refused; pending requests are cancelled.
    """
    left = deque(names)
    asked: dict[str, Any] = {}
    try:
        while left or asked:
            while left and len(asked) < in_flight:
                with undivided():  # else nobody knows whether it was heard
                    asked[left[0]] = queue.request(left[0])
                left.popleft()
            name = next(iter(asked))
            job = queue.result(asked[name])
            del asked[name]
            granted(name, job)
    except BaseException:
        _take_back(asked, queue, granted)
        raise


def _take_back(
    asked: Mapping[str, Any], queue: ClusterQueue, granted: Callable[[str, MachineJob], None]
) -> None:
    """Cancel requests, and report requests that were granted before."""
    try:
        queue.take_back(list(asked.values()))
    except SkymarkError:
        return  # no answer may come for them
    for name, one in asked.items():
        with suppress(SkymarkError):
            granted(name, queue.result(one))


Tell = Callable[[str], None]
"""Shows a line of progress."""


class Submitted(NamedTuple):
    """The jobs of a submission, and the run that they work on."""

    run: RentedRun
    jobs: tuple[MachineJob, ...]


def cluster_cards(cluster: str, handle: Any) -> Cards | None:
    """Return the accelerators of a cluster of one machine; None where it has none.

    Args:
        cluster: its name.
        handle: SkyPilot's of it.

    Raises:
        UsageError: it has several machines, whose disks they do not share.
    """
    if handle.launched_nodes > 1:
        raise UsageError(
            f"{cluster} has {handle.launched_nodes} machines, and workers find what others have "
            "taken on one disk; give a cluster of one machine, or exec with --num-nodes"
        )
    return cards_of(handle.launched_resources)


def submit_slots(quoted: Quoted, jobs: Sequence[SlotJob], tell: Tell) -> Submitted:
    """Put all jobs of slot workers into a cluster's queue, or none.

    Args:
        quoted: the run, which has a submission.
        jobs: of `skymark.cloud.submissions`.
        tell: gets a message about a wait, and about each job in the queue.

    Raises:
        UsageError: the cluster does not exist, or lacks resources for a job.
        CloudError: it did not take them.
    """
    run = quoted.run
    named = {
        job_name(f"{run.run_id}-slots-{number}"): job for number, job in enumerate(jobs, start=1)
    }
    queued: list[MachineJob] = []

    def granted(name: str, job: MachineJob) -> None:
        del name
        queued.append(job)
        tell(f"{len(queued)} of {len(jobs)} jobs are in the queue of {run.name}")

    with turn_of(run.name, tell):
        try:
            queue_slots(quoted, named, granted)
        except BaseException:
            with suppress(CloudError):
                cancel_jobs(run.name, [job.number for job in queued])
            remove_secrets(run, named if quoted.secrets else ())
            raise
    return Submitted(run, tuple(queued))


def submit_groups(quoted: Quoted, jobs: Sequence[SlotJob], tell: Tell) -> Submitted:
    """Put a job for each group into a cluster's queue, in order; stop at the first refusal.

    Queued jobs stay, and another submission of the same plan adds the rest.

    Args:
        quoted: the run, which has a submission.
        jobs: of `skymark.cloud.submissions.job_per_group`.
        tell: gets a message about a wait, and about each job in the queue.

    Raises:
        UsageError: the cluster does not exist, or lacks resources for a job.
        CloudError: it did not take a job.
    """
    key = submission_key(quoted.run, quoted.plan)
    with turn_of(quoted.run.name, tell):
        rest = outstanding_jobs(quoted.run, key, jobs, tell)
        run = quoted.run.changed(run_id=rest.run_id or quoted.run.run_id)
        named = {
            group_job_name(run.run_id, key, job.groups[0]): job
            for job in jobs
            if job.groups[0] in rest.groups
        }
        queued: dict[str, MachineJob] = {}

        def granted(name: str, job: MachineJob) -> None:
            queued[name] = job
            tell(f"{len(queued)} of {len(named)}: {named[name].groups[0]} is job {job.number}")

        if named:
            try:
                queue_slots(replace(quoted, run=run), named, granted)
            except SkymarkError as error:
                if not queued:
                    raise
                raise CloudError(f"{error}; {_left(named, queued)}") from error
            except KeyboardInterrupt:
                tell(_left(named, queued))
                raise
    return Submitted(run, tuple(queued.values()))


def outstanding_jobs(
    run: RentedRun, key: str, jobs: Sequence[SlotJob], tell: Tell
) -> OutstandingGroups:
    """Return the groups that a submission would add to the cluster's current queue.

    Args:
        run: with the cluster's name.
        key: of the submission.
        jobs: of `skymark.cloud.submissions.job_per_group`.
        tell: gets the number of groups with a job.

    Raises:
        UsageError: the cluster does not exist.
        CloudError: its queue cannot be read.
    """
    rest = outstanding_groups([job.groups[0] for job in jobs], key, queued_jobs(run.name))
    if len(rest.groups) < len(jobs):
        tell(
            f"{len(jobs) - len(rest.groups)} of {len(jobs)} groups have a job that waits, runs or "
            f"is done on {run.name}"
        )
    return rest


def queue_slots(
    quoted: Quoted, jobs: Mapping[str, SlotJob], granted: Callable[[str, MachineJob], None]
) -> None:
    """Put jobs of slot workers by name into a cluster's queue.

    Args:
        quoted: the run, which has a submission.
        jobs: by unique names within the run, in order of their start.
        granted: gets each job in the queue.

    Raises:
        UsageError: the cluster does not exist, or lacks resources for a job.
        CloudError: it did not take a job; no further job was submitted.
    """
    run = quoted.run
    launched = handle_of(run.name).launched_resources
    tasks = {name: make_slot_task(run, job, name, launched) for name, job in jobs.items()}
    until_s = _until_s(quoted)
    for task in tasks.values():
        task.update_envs({UNTIL_VARIABLE: str(until_s)})
    send_job_source(run, run.source or source_directory())
    secrets = dict.fromkeys(tasks, quoted.secrets)
    queue_tasks(run, tasks, {run.run_id: quoted.plan}, secrets, granted)


def queue_tasks(
    run: RentedRun,
    tasks: Mapping[str, Any],
    plans: Mapping[str, Plan],
    secrets: Mapping[str, Mapping[str, str]],
    granted: Callable[[str, MachineJob], None],
    in_flight: int = IN_FLIGHT,
) -> None:
    """Send plans and secrets to a cluster, and put tasks by name into its queue.

    Args:
        run: with the cluster's name and nodes.
        tasks: SkyPilot's, by the names of their jobs.
        plans: by the ids of their runs.
        secrets: of each task to start, in the tasks' order, by their names in the scripts; the job
            removes them.
        granted: gets each job in the queue.
        in_flight: number of parallel requests.

    Raises:
        CloudError: the cluster is unreachable, or did not take a job; no further job was submitted.
    """
    with TemporaryDirectory() as place:
        for run_id, plan in plans.items():
            write_plan(plan, Path(place, plan_file(run_id)))
        for name, values in secrets.items():
            if values:
                write_secrets(Path(place, secrets_file(name)), values)
        send_directory(run.name, run.machine.nodes, Path(place))
    unused = dict(zip(tasks, secrets.items(), strict=True))

    def noted(name: str, job: MachineJob) -> None:
        unused.pop(name)
        granted(name, job)

    try:
        put_in_order(tasks, ClusterQueue(run.name, tasks), noted, in_flight)
    except BaseException:
        remove_secrets(run, [name for name, values in unused.values() if values])
        raise


def send_job_source(run: RentedRun, source: Path | None) -> None:
    """Send the source of a submission to every node of a cluster.

    Args:
        run: with the cluster's name and nodes, and its submission.
        source: the directory; None where the job needs none.

    Raises:
        CloudError: a node could not be reached.
    """
    if source is not None and run.submission is not None:
        send_source(run.name, run.machine.nodes, source, run.submission)


def remove_secrets(run: RentedRun, names: Iterable[str]) -> None:
    """Remove the files of secrets by name from every node of a cluster."""
    files = [secrets_file(name) for name in names]
    for node in range(run.machine.nodes if files else 0):
        with suppress(SkymarkError):  # they go with the machine at the latest
            output_of(run.name, ("rm", "-f", *files), node)


def _until_s(quoted: Quoted) -> int:
    """Return the moment of the machine's own clock when the ceiling is used up; 0 for no ceiling.

    Raises:
        CloudError: the machine does not answer.
    """
    if quoted.run.limits.max_cost_usd is None or quoted.limit_s is None:
        return 0
    up_s, _, _ = output_of(quoted.name, ("cat", "/proc/uptime")).partition(".")
    if not up_s.isdecimal():
        raise CloudError(
            f"{quoted.name} does not tell its clock, so the ceiling cannot be kept there; nothing "
            "was queued; try again"
        )
    return int(up_s) + quoted.limit_s


def _left(named: Mapping[str, SlotJob], queued: Mapping[str, MachineJob]) -> str:
    """Return a sentence on queued jobs and missing groups."""
    left = [job.groups[0] for name, job in named.items() if name not in queued]
    numbers = " ".join(str(job.number) for job in queued.values())
    there = f"in the queue: jobs {numbers}" if queued else "no job is in the queue"
    return f"{there}; not in it: {some_of(left)}; run the same command again to submit them"
