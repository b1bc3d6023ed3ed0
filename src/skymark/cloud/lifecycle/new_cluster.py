"""A new cluster: hired for one run, and ended with it unless it is to be kept."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from skymark.cloud.cost.bill import Bill, bill_of_last, bill_of_time
from skymark.cloud.errors import CloudError
from skymark.cloud.hired_machines import HiredMachines
from skymark.cloud.known_machines import (
    claim,
    forget,
    forget_secrets,
    keep_plan,
    keep_secrets,
    note_hired,
    taken,
)
from skymark.cloud.lifecycle.gone import prove_gone
from skymark.cloud.lifecycle.keeping import keep_cluster
from skymark.cloud.lifecycle.noting import check_price, note_machines, ordered_machines
from skymark.cloud.lifecycle.outcomes import JobWithOutcome, await_outcome
from skymark.cloud.lifecycle.place import GRACE_S
from skymark.cloud.lifecycle.requests import RequestInFlight
from skymark.cloud.lifecycle.retrieving import from_cluster
from skymark.cloud.lifecycle.screen import Screen
from skymark.cloud.lifecycle.several_machines import SeveralMachines
from skymark.cloud.lifecycle.stages import Finished, Hired, Kept, Quoted, Retrieved
from skymark.cloud.machine_script import plan_file, secrets_file
from skymark.cloud.order import Order
from skymark.cloud.sky.client import explained
from skymark.cloud.sky.clusters import costs_of, has_earlier_launch, is_there, names_in_use
from skymark.cloud.sky.early_timers import early_timers
from skymark.cloud.sky.jobs import MachineJob, await_cluster, queued_jobs, request_cluster
from skymark.cloud.sky.tasks import make_task, send_files, set_limits
from skymark.cloud.waiting import clock_s
from skymark.model.errors import SkymarkError

FIRST_JOB = 1
"""Number of the job that a cluster is hired with."""


class NewCluster:
    """One or more machines of a cluster. Implements `skymark.cloud.lifecycle.place.Place`."""

    can_be_left: ClassVar[bool] = True
    outlived_by_results: ClassVar[bool] = False

    def __init__(self) -> None:
        self._request = RequestInFlight()
        self._asked_s = clock_s()
        self._machines: HiredMachines | None = None
        self._several: SeveralMachines | None = None
        self._is_anothers = False

    def claim(self, order: Order) -> None:
        """Take the cluster's name, which no client of the API server may have."""
        if order.cluster in names_in_use():
            raise taken(order.cluster)
        claim(order)

    def hire(self, quoted: Quoted, screen: Screen) -> Hired:
        """Hire the machine with its idle timer armed and start the job."""
        order = quoted.order
        self._asked_s = clock_s()
        screen.say(f"hiring {order.cluster}")
        task = make_task(order)
        set_limits(task, quoted.limit_s, quoted.highest_hourly_price_usd)
        self._machines = ordered_machines(quoted)
        note_hired(self._machines)
        files = {plan_file(order.run_id): keep_plan(order.cluster, quoted.plan)}
        if quoted.secrets:
            files[secrets_file(order.run_id)] = keep_secrets(order.cluster, quoted.secrets)
        send_files(task, files)
        with explained(f"{order.cluster} could not be hired"):
            asked = self._request.make(
                lambda: request_cluster(task, order.cluster, order.idle_minutes)
            )
            if has_earlier_launch(order.cluster, asked):  # both have looked before either asked
                self._is_anothers = True
                self._request.take_back()
                raise taken(order.cluster)
            try:
                with early_timers(order):
                    job = await_cluster(asked, order.cluster, screen.log, order.boot_timeout_s)
            except TimeoutError as error:
                raise CloudError(
                    f"{order.cluster} was not up after {order.boot_timeout_s} s; "
                    "give a longer --boot-timeout, or another --infra"
                ) from error
            self._request.granted()
        self._require_alone(job)
        forget_secrets(order.cluster)
        self._machines = note_machines(quoted, order.cluster)
        check_price(quoted, self._machines)
        until_s = None if quoted.limit_s is None else clock_s() + quoted.limit_s + GRACE_S
        took_s = clock_s() - self._asked_s
        screen.say(
            f"{order.cluster} is up after {took_s:.0f} s; it ends itself after "
            f"{order.idle_minutes} idle min, whatever happens here"
        )
        told = JobWithOutcome(job, order, screen.say)
        if order.num_nodes == 1:
            return Hired(order, told, until_s)
        self._several = SeveralMachines(told, order, screen.say)
        return Hired(order, self._several, until_s)

    def stop(self, quoted: Quoted, hired: Hired | None, screen: Screen) -> Finished:
        """End the job, so that nothing is measured once the results are on their way home."""
        del screen
        finished = Finished(quoted.order, begun=hired is not None, interrupted=True)
        if hired is None:
            return finished
        try:
            hired.job.stop()
            await_outcome(quoted.order)
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

    def end(self, finished: Finished, screen: Screen) -> float | None:
        """End the machine, unless it is to be kept and its run came to an end."""
        order = finished.order
        if self._is_anothers:
            forget(order.cluster)
            return None
        wanted = order.keep and finished.end is not None and not finished.interrupted
        if wanted and is_there(order.cluster):
            return None
        return prove_gone(order.cluster, screen.say).after_s

    def bill(self, order: Order) -> Bill | None:
        """Return the cost of the cluster; by the clock where SkyPilot does not answer."""
        try:
            bill = bill_of_last(costs_of(order.cluster), self._machines)
        except CloudError:
            bill = bill_of_time(clock_s() - self._asked_s, self._machines)
        if bill is None or self._several is None:
            return bill
        absent_s = self._several.absent_s(self._asked_s + bill.seconds)
        return bill.without(absent_s, order.num_nodes)

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
