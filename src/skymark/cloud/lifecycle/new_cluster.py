"""A new cluster: hired for one run, and ended with it unless it is to be kept.

SkyPilot's own job does not end then, for it waits for the lost machine.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TextIO

from skymark.cloud.cost.bill import Bill, bill_of_last, bill_of_time
from skymark.cloud.errors import CloudError
from skymark.cloud.known_machines import (
    HiredMachines,
    claim,
    forget,
    forget_secrets,
    keep_plan,
    keep_secrets,
    known_names,
    note_hired,
    taken,
)
from skymark.cloud.lifecycle.carrying_out import GRACE_S
from skymark.cloud.lifecycle.following import RequestInFlight, RunningJob, Say, Screen
from skymark.cloud.lifecycle.gone import keep_cluster, prove_gone
from skymark.cloud.lifecycle.outcomes import JobWithOutcome, await_outcome, parts_over
from skymark.cloud.lifecycle.quoting import check_price, note_machines, ordered_machines
from skymark.cloud.lifecycle.retrieving import from_cluster
from skymark.cloud.lifecycle.stages import Finished, Hired, Kept, Quoted, Retrieved
from skymark.cloud.machine_script import plan_file, secrets_file
from skymark.cloud.order import Order, check_cluster_name, cluster_name
from skymark.cloud.sky.client import explained
from skymark.cloud.sky.clusters import (
    costs_of,
    has_earlier_launch,
    is_there,
    names_in_use,
    running_machines,
)
from skymark.cloud.sky.jobs import (
    ENDS,
    JobEnd,
    MachineJob,
    await_cluster,
    queued_jobs,
    request_cluster,
)
from skymark.cloud.sky.managed_jobs import live_managed_jobs
from skymark.cloud.sky.ssh import early_timers
from skymark.cloud.sky.tasks import make_task, send_files, set_limits
from skymark.cloud.waiting import BackgroundCall, clock_s
from skymark.model.errors import SkymarkError, UsageError

LOOK_S = 30.0
"""Between two questions to the provider."""
FAILED = next(code for code, end in ENDS.items() if end is JobEnd.FAILED)


@dataclass
class SeveralMachines:
    """The job of a cluster's nodes. Implements `skymark.cloud.lifecycle.following.RunningJob`."""

    job: RunningJob
    order: Order
    say: Say
    running: Callable[[str], int | None] = running_machines
    """Tells how many of a cluster's machines run; None where that is not known."""
    look_s: float = LOOK_S
    _living: int | None = field(default=None, init=False)
    """Machines that are left, once some are lost."""
    _lost: list[tuple[int, float]] = field(default_factory=list, init=False)
    """How many were found lost, and at which moment of `clock_s`."""

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.job.name

    def show(self, log: TextIO) -> int | None:
        """Write the output until the job ends, or the part of each machine that is left."""
        output = BackgroundCall(lambda: self.job.show(log))
        while not output.wait(clock_s() + self.look_s):
            if self._over():
                return FAILED
        if output.raised is not None:
            raise output.raised
        code: int | None = output.result
        return code

    def ended(self) -> JobEnd | None:
        """Return the end of the job, or of the parts of all machines that are left.

        SkyPilot has no answer where the head is lost; those that are left go on all the same.
        """
        try:
            end = self.job.ended()
        except (CloudError, UsageError):
            over = self._over()
            if self._living is None:
                raise
            return JobEnd.FAILED if over else None
        return JobEnd.FAILED if end is None and self._over() else end

    def is_lost(self) -> bool:
        """Whether all machines are gone."""
        return self.job.is_lost()

    def failure(self) -> str | None:
        """Return how many machines are lost, where some are."""
        if self._living is None:
            return self.job.failure()
        nodes = self.order.num_nodes
        return f"{nodes - self._living} of its {nodes} machines are gone"

    def stop(self) -> None:
        """End it now."""
        self.job.stop()

    def absent_s(self, until_s: float) -> float:
        """Return for how long machines were lost, of all together, until a moment."""
        return sum(count * max(0.0, until_s - at_s) for count, at_s in self._lost)

    def _over(self) -> bool:
        """Whether machines are lost, and all others have ended their parts."""
        living = self.running(self.order.cluster)
        if living is None or not 0 < living < self.order.num_nodes:
            return False
        if living != self._living:
            before = self.order.num_nodes if self._living is None else self._living
            self._lost.append((before - living, clock_s()))
            self._living = living
            self.say(
                f"{self.name} has lost machines: {living} of {self.order.num_nodes} are left; "
                "what they measure comes home when they have ended"
            )
        return parts_over(self.order)


FIRST_JOB = 1
"""Number of the job that a cluster is hired with."""


class NewCluster:
    """One or more machines of a cluster. Implements `carrying_out.Place`."""

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


def name_for(profile: str, wanted: str | None = None) -> str:
    """Return the name of a new machine: the one that is wanted, else the profile's, free to use.

    Raises:
        UsageError: the wanted name is taken, or is none.
    """
    taken = names_in_use() | {one.name for one in live_managed_jobs()} | known_names()
    if wanted is None:
        return cluster_name(profile, taken)
    check_cluster_name(wanted)
    if wanted in taken:
        raise UsageError(
            f"--cluster {wanted}: there is such a machine; give another name, run on it with "
            f"`skymark exec {wanted}`, or end it with `skymark down {wanted}`"
        )
    return wanted
