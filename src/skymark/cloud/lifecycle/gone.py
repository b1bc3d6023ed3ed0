"""Clusters and managed jobs that are to be gone."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import ClassVar

from skymark.cloud.errors import CloudError
from skymark.cloud.hired_machines import HiredMachines
from skymark.cloud.known_machines import hired
from skymark.cloud.lifecycle.disappearance import Disappearance
from skymark.cloud.lifecycle.ending import Gone, until_gone
from skymark.cloud.lifecycle.screen import Say
from skymark.cloud.sky.clusters import end_cluster, find_cluster, is_up
from skymark.cloud.sky.hired import ProviderList, hired_machines
from skymark.cloud.sky.managed_jobs import ManagedJob, find_managed_job
from skymark.cloud.waiting import clock_s
from skymark.model.errors import UsageError

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
