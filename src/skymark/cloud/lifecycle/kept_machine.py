"""A machine that is there already: runs are queued on it at once, and carried out one by one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from skymark.cloud.errors import CloudError, NoMachineError
from skymark.cloud.known_machines import turn_of
from skymark.cloud.lifecycle.carrying_out import carry_out, wind_up
from skymark.cloud.lifecycle.following import ClusterJob, await_outcome
from skymark.cloud.lifecycle.new_cluster import keep_cluster
from skymark.cloud.lifecycle.queued_jobs import queue_tasks, remove_secrets, send_job_source
from skymark.cloud.lifecycle.retrieving import from_cluster
from skymark.cloud.lifecycle.stages import (
    Callbacks,
    Ended,
    Finished,
    Hired,
    Kept,
    Left,
    Quoted,
    Retrieved,
)
from skymark.cloud.rented_run import RentedRun
from skymark.cloud.sky.clusters import find_cluster
from skymark.cloud.sky.jobs import JobEnd, MachineJob, QueuedJob, cancel_jobs, queued_jobs
from skymark.cloud.sky.tasks import make_run_task, set_limits, source_of
from skymark.cloud.submissions import job_name
from skymark.model.errors import SkymarkError


def carry_out_all(
    runs: Sequence[Quoted], callbacks: Callbacks, results: Path
) -> list[Ended | Kept]:
    """Carry out more runs on a live machine, without set-up; the machine stays.

    Args:
        runs: all on the same machine.
        callbacks: Ctrl-C cancels unfinished runs, and downloads their results.
        results: directory of runs; each of these gets a directory of its own there.

    Returns:
        The end of each, in the order given.

    Raises:
        UsageError: there is no such machine.
        CloudError: it did not take the jobs; none of them is left in its queue.
    """
    place = _place_of(runs[0].name)
    ended: list[Ended | Kept] = []
    try:
        place.queue(runs, callbacks)
        for quoted in runs:
            over = carry_out(quoted, place, callbacks, results)
            assert not isinstance(over, Left), "a run on a kept machine is never left"
            ended.append(over)
            if over.interrupted:
                break
    except KeyboardInterrupt:  # on the way to the queue, or on the way home
        pass
    left = [place.stop(quoted, None, callbacks) for quoted in runs[len(ended) :]]
    return [*ended, *(wind_up(finished, place, callbacks, results) for finished in left)]


def queue(runs: Sequence[Quoted], callbacks: Callbacks) -> None:
    """Put runs into the queue of a live machine and leave them to it; results stay there.

    Raises:
        UsageError: there is no such machine.
        CloudError: it did not take the jobs; none of them is left in its queue.
    """
    place = _place_of(runs[0].name)
    try:
        place.queue(runs, callbacks)
    except KeyboardInterrupt:
        place.stop(runs[0], None, callbacks)
        raise


def _place_of(cluster: str) -> KeptMachine:
    record = find_cluster(cluster, refresh=True)
    if record is None:
        raise NoMachineError(cluster)
    return KeptMachine(cluster, record["handle"].launched_resources)


class KeptMachine:
    """A machine that stays. Implements `skymark.cloud.lifecycle.stages.Place`."""

    can_be_left: ClassVar[bool] = False
    outlived_by_results: ClassVar[bool] = False

    def __init__(self, cluster: str, launched: Any) -> None:
        """Use a machine that is up.

        Args:
            cluster: its name.
            launched: SkyPilot's resources of it.
        """
        self._cluster = cluster
        self._launched = launched
        self._jobs: dict[str, MachineJob] = {}
        self._left: dict[str, str] = {}
        """Names of jobs by the ids of their runs, of those whose results are not home."""
        self._before: set[int] = set()
        """Numbers of jobs that were in the queue already; a user may give a name twice."""
        self._begun: set[str] | None = None
        """Names of the jobs that had begun when all were taken back; None before."""

    def queue(self, runs: Sequence[Quoted], callbacks: Callbacks) -> None:
        """Put all runs into the machine's queue, or none.

        Raises:
            CloudError: the machine did not take a run.
        """
        by_id = {quoted.run.run_id: quoted for quoted in runs}
        tasks = {}
        for id, quoted in by_id.items():
            tasks[id] = make_run_task(quoted.run, _name_of(quoted.run), self._launched)
            set_limits(tasks[id], quoted.limit_s, None)
        self._left = {id: _name_of(quoted.run) for id, quoted in by_id.items()}
        first = runs[0].run

        def granted(id: str, job: MachineJob) -> None:
            self._jobs[id] = job
            callbacks.tell(f"{id} is job {job.number} of {self._cluster}")

        with turn_of(self._cluster, callbacks.tell):
            self._before = {job.id for job in queued_jobs(self._cluster)}
            try:
                if first.submission is not None:  # of one submission, for all
                    send_job_source(first, source_of(first))
                plans = {id: quoted.plan for id, quoted in by_id.items()}
                secrets = {id: quoted.secrets for id, quoted in by_id.items()}
                # One at a time: they are to begin in this order.
                queue_tasks(first, tasks, plans, secrets, granted, in_flight=1)
            except Exception:
                self._take_all_back()
                raise

    def claim(self, quoted: Quoted) -> None:
        """Do nothing: the machine has its name."""

    def hire(self, quoted: Quoted, callbacks: Callbacks) -> Hired:
        """Return the run's job, which is in the queue; its time begins when it is its turn."""
        job = ClusterJob(self._jobs[quoted.run.run_id], quoted.run, callbacks.tell)
        return Hired(quoted.run, job, quoted.until_s())

    def stop(self, quoted: Quoted, hired: Hired | None, callbacks: Callbacks) -> Finished:
        """Take back every run that has not ended, and say whether this one had begun."""
        del hired
        if self._begun is None:
            callbacks.tell("taking back what has not ended")
            self._begun = self._take_all_back()
        finished = Finished(quoted.run, interrupted=True)
        if _name_of(quoted.run) not in self._begun:
            problem = "it had not begun, and was taken back"
            return Finished(quoted.run, begun=False, interrupted=True, problems=(problem,))
        if quoted.run.job.nodes is not None:  # nobody knows on which of the nodes it was
            return finished
        try:
            await_outcome(quoted.run)
        except SkymarkError as error:
            return finished.with_problem(f"the run could not be stopped: {error}")
        return finished

    def take_back(self) -> None:
        """Do nothing: all requests were cancelled together."""

    def keep(self, retrieved: Retrieved) -> Kept:
        """Leave the machine to its idle timer, as always."""
        return keep_cluster(retrieved)

    def retrieve(self, finished: Finished, results: Path) -> Retrieved:
        """Bring the results of a run that had begun from the machine."""
        if not finished.begun:
            return Retrieved(finished)
        if finished.run.job.nodes is not None:
            remove_secrets(finished.run, [finished.run.run_id])  # of nodes that it did not use
        retrieved = from_cluster(finished, results)
        if finished.end is JobEnd.UNSTORED and retrieved.safe:
            with suppress(SkymarkError):  # it ends by itself
                self._jobs[finished.run.run_id].stop()
        self._left.pop(finished.run.run_id, None)
        return retrieved

    def end(self, finished: Finished, callbacks: Callbacks) -> None:
        """Do nothing: the machine stays."""

    def bill(self, run: RentedRun) -> None:
        """Return None: the machine is still paid for."""

    def _ours(self) -> list[QueuedJob]:
        names = set(self._left.values())
        listed = queued_jobs(self._cluster)
        return [job for job in listed if job.name in names and job.id not in self._before]

    def _take_all_back(self) -> set[str]:
        """End every job that has not ended; returns the names of those that had begun.

        Raises:
            CloudError: it is unknown whether they have ended.
        """
        cluster = self._cluster
        try:
            cancel_jobs(cluster, [job.id for job in self._ours()])
            return {job.name for job in self._ours() if job.seconds is not None}
        except CloudError as error:
            raise CloudError(
                f"queued jobs may still run ({error}); `skymark queue {cluster}` lists them, and "
                f"`skymark down {cluster}` ends them with the machine"
            ) from error


def _name_of(run: RentedRun) -> str:
    return run.job.name or job_name(run.run_id)
