"""Jobs of single groups: their names, by which a submission that broke off is taken up.

A job is named after its run, the submission's key and its group. So the cluster's queue itself
tells what another submission of the same has put there, from whichever machine it came.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple, Protocol

from skymark.cloud.order import Order
from skymark.cloud.submission import job_name
from skymark.execute.partition.explain import worker_parts
from skymark.execute.partition.shard import items_of
from skymark.model.plan import Plan

LONGEST_GROUP = 60
"""Characters of a group's name that its job's name has: the queue is to be read by people."""
DIGITS = 12
"""Hexadecimal digits of a digest: of a thousand groups two have the same once in 10^8 plans."""

_NAME = re.compile(rf"(.+)-group-([0-9a-f]{{{DIGITS}}})-([0-9a-f]{{{DIGITS}}})(-.*)?")


class KnownJob(Protocol):
    """A job of a queue. `skymark.cloud.sky.jobs.QueuedJob` is one."""

    id: int
    name: str
    status: str


class Outstanding(NamedTuple):
    """The groups that are to be submitted, and the run that they go to."""

    groups: tuple[str, ...]
    run_id: str | None
    """Of the submission that they are the rest of; None for a run of their own."""


def submission_key(plan: Plan, order: Order) -> str:
    """Return the key of all submissions of a plan whose results go to the same places.

    One that divides the plan otherwise between its jobs has another key.
    """
    words = [plan.hash, *order.stores, *map("=".join, sorted(order.variables.items()))]
    if order.parts > 1:
        words += ["\n".join(one.keys) for one in worker_parts(order.sharing, items_of(plan.cells))]
    return _digest("\0".join([*words, str(order.deadline_s)]))


def group_job_name(run_id: str, key: str, group: str) -> str:
    """Return the name of a group's job; the run's id must be as `job_name` makes it."""
    readable = job_name(group)[:LONGEST_GROUP].strip("-")
    return f"{run_id}-group-{key}-{_digest(group)}-{readable}".rstrip("-")


def outstanding(groups: Iterable[str], key: str, queue: Iterable[KnownJob]) -> Outstanding:
    """Return the groups that no job has, or if there is none, those whose jobs failed.

    The first belong to the run of the submission that broke off. A run that has a group's bad ends
    does not measure it again, so those that failed get a run of their own.

    Args:
        groups: all of the plan, in order.
        key: of the submission.
        queue: the cluster's jobs, finished ones included.
    """
    newest: dict[str, KnownJob] = {}
    run_id: str | None = None
    for job in sorted(queue, key=lambda one: one.id):
        found = _NAME.fullmatch(job.name)
        if found is not None and found[2] == key:
            run_id, newest[found[3]] = found[1], job
    named = {group: newest.get(_digest(group)) for group in groups}
    absent = tuple(
        group for group, job in named.items() if job is None or job.status == "CANCELLED"
    )
    if absent:
        return Outstanding(absent, run_id)
    failed = tuple(
        group for group, job in named.items() if job is not None and "FAILED" in job.status
    )
    return Outstanding(failed, None)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:DIGITS]
