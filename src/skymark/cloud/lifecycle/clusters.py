"""Runs on clusters: a new one, rented for one run, or a machine that is there already."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from skymark.cloud.cost.bill import Bill, bill_of_last, bill_of_time
from skymark.cloud.known_machines import (
    RentedMachines,
    claim,
    forget,
    forget_secrets,
    keep_plan,
    keep_secrets,
    note_rented,
    rented,
    taken,
    turn_of,
)
from skymark.cloud.lifecycle.ending import prove_gone
from skymark.cloud.lifecycle.following import ClusterJob, await_outcome
from skymark.cloud.lifecycle.queued_jobs import (
    RequestInFlight,
    queue_tasks,
    remove_secrets,
    send_job_source,
)
from skymark.cloud.lifecycle.quoting import check_price, note_machines, ordered_machines
from skymark.cloud.lifecycle.retrieving import from_cluster
from skymark.cloud.lifecycle.stages import (
    Callbacks,
    Ended,
    Finished,
    Kept,
    Left,
    Quoted,
    Rented,
    Retrieved,
    carry_out,
    wind_up,
)
from skymark.cloud.machine_script import (
    IDLE_FILE,
    MARGIN_S,
    TIMER,
    idle_setting,
    plan_file,
    secrets_file,
)
from skymark.cloud.rented_run import IDLE_MINUTES, RentedRun
from skymark.cloud.sky.client import explained
from skymark.cloud.sky.clusters import (
    costs_of,
    find_cluster,
    has_earlier_launch,
    is_there,
    names_in_use,
    set_idle_timer,
)
from skymark.cloud.sky.jobs import (
    JobEnd,
    MachineJob,
    QueuedJob,
    await_cluster,
    cancel_jobs,
    queued_jobs,
    request_cluster,
)
from skymark.cloud.sky.ssh import send
from skymark.cloud.sky.tasks import (
    early_timers,
    make_run_task,
    make_task,
    send_files,
    set_limits,
    source_of,
)
from skymark.cloud.submissions import job_name
from skymark.cloud.waiting import clock_s
from skymark.model.errors import CloudError, NoMachineError, SkymarkError, UnreachableError

FIRST_JOB = 1
"""Number of the job that a cluster is rented with."""


class NewCluster:
    """One or more machines of a cluster. Implements `skymark.cloud.lifecycle.stages.RunPlace`."""

    can_be_left: ClassVar[bool] = True
    outlived_by_results: ClassVar[bool] = False

    def __init__(self) -> None:
        self._request = RequestInFlight()
        self._asked_s = clock_s()
        self._machines: RentedMachines | None = None
        self._job: ClusterJob | None = None
        self._is_anothers = False

    def claim(self, quoted: Quoted) -> None:
        """Take the cluster's name, which no client of the API server may have."""
        if quoted.name in names_in_use():
            raise taken(quoted.name)
        claim(quoted.run)

    def rent(self, quoted: Quoted, callbacks: Callbacks) -> Rented:
        """Rent the machine with its idle timer armed and start the job."""
        run = quoted.run
        self._asked_s = clock_s()
        callbacks.tell(f"renting {run.name}")
        task = make_task(run)
        set_limits(task, quoted.limit_s, quoted.highest_hourly_price_usd)
        self._machines = ordered_machines(quoted)
        note_rented(self._machines)
        files = {plan_file(run.run_id): keep_plan(run.name, quoted.plan)}
        if quoted.secrets:
            files[secrets_file(run.run_id)] = keep_secrets(run.name, quoted.secrets)
        send_files(task, files)
        with explained(f"{run.name} could not be rented"):
            asked = self._request.make(lambda: request_cluster(task, run.name, run.idle_minutes))
            if has_earlier_launch(run.name, asked):  # both have looked before either asked
                self._is_anothers = True
                self._request.take_back()
                raise taken(run.name)
            try:
                with early_timers(run.name, run.idle_minutes, run.machine):
                    job = await_cluster(asked, run.name, callbacks.log, run.machine.boot_timeout_s)
            except TimeoutError as error:
                raise CloudError(
                    f"{run.name} was not up after {run.machine.boot_timeout_s} s; "
                    "give a longer --boot-timeout, or another --infra"
                ) from error
            self._request.granted()
        self._require_alone(job)
        forget_secrets(run.name)
        self._machines = note_machines(quoted, run.name)
        check_price(quoted, self._machines)
        until_s, took_s = quoted.until_s(), clock_s() - self._asked_s
        callbacks.tell(
            f"{run.name} is up after {took_s:.0f} s; it ends itself after "
            f"{run.idle_minutes} idle min, whatever happens here"
        )
        self._job = ClusterJob(job, run, callbacks.tell)
        return Rented(run, self._job, until_s)

    def stop(self, quoted: Quoted, rented: Rented | None, callbacks: Callbacks) -> Finished:
        """End the job, so that nothing is measured once the results are on their way home."""
        del callbacks
        finished = Finished(quoted.run, begun=rented is not None, interrupted=True)
        if rented is None:
            return finished
        try:
            rented.job.stop()
            await_outcome(quoted.run)
        except SkymarkError as error:
            return finished.with_problem(f"the run could not be stopped: {error}")
        return finished

    def take_back(self) -> None:
        """End a request for a machine that was not granted."""
        self._request.take_back()

    def retrieve(self, finished: Finished, results: Path) -> Retrieved:
        """Bring the results from the machine."""
        return from_cluster(finished, results)

    def keep(self, retrieved: Retrieved) -> Kept:
        """Leave the machine to its idle timer, for as long as it was to wait for a connection."""
        return keep_cluster(retrieved)

    def end(self, finished: Finished, callbacks: Callbacks) -> float | None:
        """End the machine, unless it is to be kept and its run came to an end."""
        run = finished.run
        if self._is_anothers:
            forget(run.name)
            return None
        wanted = run.machine.stays and finished.end is not None and not finished.interrupted
        if wanted and is_there(run.name):
            return None
        return prove_gone(run.name, callbacks.tell).after_s

    def bill(self, run: RentedRun) -> Bill | None:
        """Return the cost of the cluster; by the clock where SkyPilot does not answer."""
        try:
            bill = bill_of_last(costs_of(run.name), self._machines)
        except CloudError:
            bill = bill_of_time(clock_s() - self._asked_s, self._machines)
        if bill is None or self._job is None:
            return bill
        absent_s = self._job.absent_s(self._asked_s + bill.seconds)
        return bill.without(absent_s, run.machine.nodes)

    def _require_alone(self, job: MachineJob) -> None:
        """Leave a cluster that another client has rented under the same name at the same moment.

        SkyPilot takes the later launch for one more job there, and nobody else tells it apart.

        Raises:
            NameTakenError: it has, and its machine goes on.
        """
        self._is_anothers = job.number != FIRST_JOB
        self._is_anothers = self._is_anothers and len(queued_jobs(job.name)) > 1
        if not self._is_anothers:
            return
        with suppress(SkymarkError):  # the other one ends it with the machine
            job.stop()
        raise taken(job.name)


LATE_MINUTES = MARGIN_S / 60 + 1
"""That a machine's own timer is behind SkyPilot's, and the time until it looks and ends it."""


def keep_cluster(retrieved: Retrieved) -> Kept:
    """Leave a cluster to its idle timer.

    A shorter timer, set because results were to be in a store, becomes `IDLE_MINUTES`, or the time
    that its ceiling allows.
    """
    run = retrieved.finished.run
    minutes, machines = run.idle_minutes, rented(run.name)
    with suppress(SkymarkError):  # an API server that is away is no reason to end it
        longer = min(IDLE_MINUTES, _affordable_minutes(run, machines))
        if longer > minutes:
            _set_own_timer(run, longer)
            set_idle_timer(run.name, longer)
            minutes = longer
    return Kept(retrieved, minutes, None if machines is None else machines.hourly_price_usd)


def _affordable_minutes(run: RentedRun, machines: RentedMachines | None) -> int:
    """Return the idle minutes that a ceiling allows, less the timers' check interval.

    Raises:
        CloudError: SkyPilot does not report the cluster's cost.
    """
    if run.limits.max_cost_usd is None:
        return IDLE_MINUTES
    bill = bill_of_last(costs_of(run.name), machines)
    if bill is None or bill.price_usd is None or not bill.hourly_price_usd:
        return 0
    left_usd = run.limits.max_cost_usd - bill.price_usd
    return int(left_usd / bill.hourly_price_usd * 60 - LATE_MINUTES)


def _set_own_timer(run: RentedRun, minutes: int) -> None:
    """Set skymark's timer on each node to a wait from now.

    Raises:
        UnreachableError: a node does not answer.
    """
    with TemporaryDirectory() as place:
        file = Path(place, IDLE_FILE)
        file.write_text(idle_setting(minutes))
        try:
            send(run.name, run.machine.nodes, file, f"{TIMER}/{IDLE_FILE}")
        except UnreachableError:
            raise
        except CloudError:  # a cluster of one's own has none
            return


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
    """A machine that stays. Implements `skymark.cloud.lifecycle.stages.RunPlace`."""

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

    def rent(self, quoted: Quoted, callbacks: Callbacks) -> Rented:
        """Return the run's job, which is in the queue; its time begins when it is its turn."""
        job = ClusterJob(self._jobs[quoted.run.run_id], quoted.run, callbacks.tell)
        return Rented(quoted.run, job, quoted.until_s())

    def stop(self, quoted: Quoted, rented: Rented | None, callbacks: Callbacks) -> Finished:
        """Take back every run that has not ended, and say whether this one had begun."""
        del rented
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
