"""A job for each group in the queue of a cluster: those that are there already are left alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from skymark.cloud.errors import CloudError
from skymark.cloud.group_jobs import (
    Outstanding,
    group_job_name,
    outstanding,
    submission_key,
)
from skymark.cloud.known_machines import turn_of
from skymark.cloud.lifecycle.slot_jobs import Submitted, queue_named
from skymark.cloud.lifecycle.stages import Quoted
from skymark.cloud.order import Order
from skymark.cloud.sky.jobs import MachineJob, queued_jobs
from skymark.cloud.slots import SlotJob
from skymark.model.errors import SkymarkError

NAMED = 5
"""Groups that a message names; the rest is counted."""


def submit_groups(
    quoted: Quoted, jobs: Sequence[SlotJob], announce: Callable[[str], None]
) -> Submitted:
    """Put a job for each group into a cluster's queue, in order; stop at the first refusal.

    What is in the queue then stays there, and another submission of the same is for the rest.

    Args:
        quoted: the run; its order has a submission.
        jobs: of `skymark.cloud.slots.job_per_group`.
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
        jobs: of `skymark.cloud.slots.job_per_group`.
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
