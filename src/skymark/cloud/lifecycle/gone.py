"""Clusters and managed jobs that are to be gone, or kept until their idle timer ends them."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from skymark.cloud.cost.bill import bill_of_last
from skymark.cloud.errors import CloudError, UnreachableError
from skymark.cloud.known_machines import HiredMachines, hired
from skymark.cloud.lifecycle.ending import Disappearance, Gone, until_gone
from skymark.cloud.lifecycle.following import Say
from skymark.cloud.lifecycle.stages import Kept, Retrieved
from skymark.cloud.machine_script import IDLE_FILE, MARGIN_S, TIMER, idle_setting
from skymark.cloud.order import IDLE_MINUTES, Order
from skymark.cloud.sky.clusters import (
    ProviderList,
    costs_of,
    end_cluster,
    find_cluster,
    hired_machines,
    is_up,
    set_idle_timer,
)
from skymark.cloud.sky.managed_jobs import ManagedJob, find_managed_job
from skymark.cloud.sky.ssh import send
from skymark.cloud.waiting import clock_s
from skymark.model.errors import SkymarkError, UsageError

POLL_S = 1.0
LOOK_S = 15.0
"""Between two looks at a managed job: as often as SkyPilot itself looks, and each costs seconds of
CPU."""


def prove_gone(cluster: str, say: Say) -> Gone:
    """End a cluster's machines; returns when they are gone, also if there were none.

    Raises:
        StillBillingError: a machine is not proved gone; the message has its id and price.
    """
    return until_gone(EndableCluster(cluster), ProviderList(), say)


def prove_job_gone(name: str, say: Say, job: ManagedJob | None = None) -> Gone:
    """End a managed job; returns when it has no machine, also if there was no such job.

    Args:
        name: the job's.
        say: told what happens.
        job: where it has been found already.

    Raises:
        StillBillingError: a machine is not proved gone; the message has its id and price.
    """
    return until_gone(EndableJob(name, job), ProviderList(), say)


def is_gone(cluster: str) -> bool:
    """Whether a cluster's provider has listed none of its machines for long; ends nothing.

    It returns at once where a machine runs, or nobody can tell.
    """
    machines, provider, proof = hired(cluster), ProviderList(), Disappearance()
    if machines is None or not provider.can_be_asked(machines):
        return False
    while not proof.proved:
        try:
            asked_s = clock_s()
            proof.look(provider.look(machines), asked_s, clock_s())
        except CloudError:
            return False
        if proof.running:
            return False
        time.sleep(POLL_S)
    return True


@dataclass(frozen=True)
class EndableCluster:
    """A cluster. Implements `skymark.cloud.lifecycle.ending.Endable`."""

    name: str
    hires_again: ClassVar[bool] = False

    def hired(self) -> HiredMachines | None:
        """Return SkyPilot's record of its machines."""
        return hired_machines(self.name)

    def end(self) -> bool:
        """Have it ended; SkyPilot's record of it goes with it."""
        try:
            end_cluster(self.name)
        except UsageError:
            return False
        while (record := find_cluster(self.name, refresh=True)) is not None:
            if is_up(record):
                raise CloudError("SkyPilot has it as up after it was told to end it")
            time.sleep(POLL_S)
        return True


@dataclass
class EndableJob:
    """A managed job. Implements `skymark.cloud.lifecycle.ending.Endable`."""

    name: str
    job: ManagedJob | None = None
    hires_again: bool = field(default=True, init=False)

    def hired(self) -> HiredMachines | None:
        """Return SkyPilot's record of the machine that it has now."""
        job = self._found()
        return None if job is None else hired_machines(job.machine, job.name)

    def end(self) -> bool:
        """Have it cancelled, where it has not ended, and its machine ended."""
        job = self._found()
        if job is None:
            return False
        while not (job.end() and all(one.ended for one in job.machines())):
            time.sleep(LOOK_S)
        return True

    def _found(self) -> ManagedJob | None:
        self.job = self.job or find_managed_job(self.name)
        return self.job


LATE_MINUTES = MARGIN_S / 60 + 1
"""That a machine's own timer is behind SkyPilot's, and the time until it looks and ends it."""


def keep_cluster(retrieved: Retrieved) -> Kept:
    """Leave a cluster to its idle timer.

    One that was to wait for less than `IDLE_MINUTES`, because its results were to be in a store,
    waits so long now, or as long as its ceiling has room for.
    """
    order = retrieved.finished.order
    minutes, machines = order.idle_minutes, hired(order.cluster)
    with suppress(SkymarkError):  # an API server that is away is no reason to end it
        longer = min(IDLE_MINUTES, _affordable_minutes(order, machines))
        if longer > minutes:
            _set_own_timer(order, longer)
            set_idle_timer(order.cluster, longer)
            minutes = longer
    return Kept(retrieved, minutes, None if machines is None else machines.hourly_price_usd)


def _affordable_minutes(order: Order, machines: HiredMachines | None) -> int:
    """Return the idle minutes that a ceiling has room for, less those until timers look.

    Raises:
        CloudError: SkyPilot does not tell what the cluster has cost so far.
    """
    if order.max_cost_usd is None:
        return IDLE_MINUTES
    bill = bill_of_last(costs_of(order.cluster), machines)
    if bill is None or bill.price_usd is None or not bill.hourly_price_usd:
        return 0
    left_usd = order.max_cost_usd - bill.price_usd
    return int(left_usd / bill.hourly_price_usd * 60 - LATE_MINUTES)


def _set_own_timer(order: Order, minutes: int) -> None:
    """Have the timer of each node, which is not SkyPilot's, wait so long from now.

    Raises:
        UnreachableError: a node does not answer.
    """
    with TemporaryDirectory() as place:
        file = Path(place, IDLE_FILE)
        file.write_text(idle_setting(minutes))
        try:
            send(order.cluster, order.num_nodes, file, f"{TIMER}/{IDLE_FILE}")
        except UnreachableError:
            raise
        except CloudError:  # a cluster of one's own has none
            return
