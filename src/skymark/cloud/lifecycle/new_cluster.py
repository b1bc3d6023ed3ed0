"""A new cluster: hired for one run, and ended with it unless it is to be kept."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from skymark.cloud.cost.bill import Bill, bill_of_last, bill_of_time
from skymark.cloud.errors import CloudError, UnreachableError
from skymark.cloud.known_machines import (
    HiredMachines,
    claim,
    forget,
    forget_secrets,
    hired,
    keep_plan,
    keep_secrets,
    note_hired,
    taken,
)
from skymark.cloud.lifecycle.asking import RequestInFlight
from skymark.cloud.lifecycle.ending import prove_gone
from skymark.cloud.lifecycle.following import ClusterJob, await_outcome
from skymark.cloud.lifecycle.quoting import check_price, note_machines, ordered_machines
from skymark.cloud.lifecycle.retrieving import from_cluster
from skymark.cloud.lifecycle.stages import Callbacks, Finished, Hired, Kept, Quoted, Retrieved
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
    has_earlier_launch,
    is_there,
    names_in_use,
    set_idle_timer,
)
from skymark.cloud.sky.jobs import MachineJob, await_cluster, queued_jobs, request_cluster
from skymark.cloud.sky.ssh import send
from skymark.cloud.sky.tasks import early_timers, make_task, send_files, set_limits
from skymark.cloud.waiting import clock_s
from skymark.model.errors import SkymarkError

FIRST_JOB = 1
"""Number of the job that a cluster is hired with."""


class NewCluster:
    """One or more machines of a cluster. Implements `skymark.cloud.lifecycle.stages.Place`."""

    can_be_left: ClassVar[bool] = True
    outlived_by_results: ClassVar[bool] = False

    def __init__(self) -> None:
        self._request = RequestInFlight()
        self._asked_s = clock_s()
        self._machines: HiredMachines | None = None
        self._job: ClusterJob | None = None
        self._is_anothers = False

    def claim(self, quoted: Quoted) -> None:
        """Take the cluster's name, which no client of the API server may have."""
        if quoted.name in names_in_use():
            raise taken(quoted.name)
        claim(quoted.run)

    def hire(self, quoted: Quoted, callbacks: Callbacks) -> Hired:
        """Hire the machine with its idle timer armed and start the job."""
        run = quoted.run
        self._asked_s = clock_s()
        callbacks.tell(f"hiring {run.name}")
        task = make_task(run)
        set_limits(task, quoted.limit_s, quoted.highest_hourly_price_usd)
        self._machines = ordered_machines(quoted)
        note_hired(self._machines)
        files = {plan_file(run.run_id): keep_plan(run.name, quoted.plan)}
        if quoted.secrets:
            files[secrets_file(run.run_id)] = keep_secrets(run.name, quoted.secrets)
        send_files(task, files)
        with explained(f"{run.name} could not be hired"):
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
        return Hired(run, self._job, until_s)

    def stop(self, quoted: Quoted, hired: Hired | None, callbacks: Callbacks) -> Finished:
        """End the job, so that nothing is measured once the results are on their way home."""
        del callbacks
        finished = Finished(quoted.run, begun=hired is not None, interrupted=True)
        if hired is None:
            return finished
        try:
            hired.job.stop()
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
        """Leave a cluster that another client has hired under the same name at the same moment.

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
    minutes, machines = run.idle_minutes, hired(run.name)
    with suppress(SkymarkError):  # an API server that is away is no reason to end it
        longer = min(IDLE_MINUTES, _affordable_minutes(run, machines))
        if longer > minutes:
            _set_own_timer(run, longer)
            set_idle_timer(run.name, longer)
            minutes = longer
    return Kept(retrieved, minutes, None if machines is None else machines.hourly_price_usd)


def _affordable_minutes(run: RentedRun, machines: HiredMachines | None) -> int:
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
