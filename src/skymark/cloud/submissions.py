"""Names of a submission's jobs, by which the same command submits the rest.

A slot worker takes one group of a plan after another. One job per GPU starts all workers on it,
because submitting a job takes seconds: 64 slots on eight GPUs are 8 jobs.

A job is named after its run, the submission's key, and its group or its part of the plan. The queue
itself thus shows the jobs of an earlier, equal submission, from any machine.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import NamedTuple

from skymark.cloud.rented_run import RentedRun
from skymark.execute.partition.shard import items_of, worker_parts
from skymark.model.base import Frozen
from skymark.model.plan import Plan

LONGEST_GROUP = 60
"""Characters of a group's name that its job's name has: the queue is to be read by people."""
DIGITS = 12
"""Hexadecimal digits of a digest: of a thousand groups two have the same once in 10^8 plans."""

_GROUP_JOB = re.compile(rf"(.+)-group-([0-9a-f]{{{DIGITS}}})-([0-9a-f]{{{DIGITS}}})(-.*)?")


PREFIX = "skymark-"
"""Of names of machines that skymark rents."""
_PART_JOB = re.compile(rf"{PREFIX}(.+)-([0-9a-f]{{{DIGITS}}})-(\d+)of(\d+)(?:-(\d+))?")


class KnownJob(Frozen):
    """A job of a queue, or a managed job."""

    id: int
    name: str
    status: str
    """In SkyPilot's word."""


class OutstandingGroups(NamedTuple):
    """The groups that are to be submitted, and the run that they go to."""

    groups: tuple[str, ...]
    run_id: str | None
    """Of the submission that they are the rest of; None for a run of their own."""


def submission_key(run: RentedRun, plan: Plan) -> str:
    """Return the key of submissions with the same plan and stores of results.

    A submission that divides the plan differently between its jobs has another key.
    """
    words = [plan.hash, *run.stores, *map("=".join, sorted(run.job.variables.items()))]
    if run.parts > 1:
        words += ["\n".join(part.keys) for part in worker_parts(run.sharing, items_of(plan.cells))]
    return _digest("\0".join([*words, str(run.limits.deadline_s)]))


def group_job_name(run_id: str, key: str, group: str) -> str:
    """Return the name of a group's job; the run's id must be as `job_name` makes it."""
    readable = job_name(group)[:LONGEST_GROUP].strip("-")
    return f"{run_id}-group-{key}-{_digest(group)}-{readable}".rstrip("-")


def outstanding_groups(
    groups: Iterable[str], key: str, queue: Iterable[KnownJob]
) -> OutstandingGroups:
    """Return the groups without a job or, if there are none, the groups of failed jobs.

    Groups without a job belong to the run of the interrupted submission. A run with failed cells of
    a group does not measure them again, so failed groups get a new run.

    Args:
        groups: all groups of the plan, in order.
        key: of the submission.
        queue: the cluster's jobs, including finished jobs.
    """
    newest: dict[str, KnownJob] = {}
    run_id: str | None = None
    for job in sorted(queue, key=lambda one: one.id):
        name = _GROUP_JOB.fullmatch(job.name)
        if name is not None and name[2] == key:
            run_id, newest[name[3]] = name[1], job
    named = {group: newest.get(_digest(group)) for group in groups}
    absent = tuple(
        group for group, job in named.items() if job is None or job.status == "CANCELLED"
    )
    if absent:
        return OutstandingGroups(absent, run_id)
    failed = tuple(
        group for group, job in named.items() if job is not None and "FAILED" in job.status
    )
    return OutstandingGroups(failed, None)


class OutstandingParts(NamedTuple):
    """The parts of a plan that are to be submitted, and the run that they go to."""

    attempts: Mapping[int, int]
    """The attempt that a job would be, by the part's number from 0."""
    run_id: str | None
    """Of the submission that they are the rest of; None for a run of their own."""


def part_job_name(run_id: str, key: str, part: int, parts: int, attempt: int) -> str:
    """Return the name of the job of a part; the run's id must be as `job_name` makes it.

    Args:
        run_id: of the run that all parts belong to.
        key: of `submission_key`.
        part: its number, from 0; people count from 1.
        parts: how many there are.
        attempt: from 1; SkyPilot keeps the names of jobs that have ended.
    """
    name = f"{PREFIX}{run_id}-{key}-{part + 1}of{parts}"
    return name if attempt == 1 else f"{name}-{attempt}"


def outstanding_parts(parts: int, key: str, known: Iterable[KnownJob]) -> OutstandingParts:
    """Return the parts without a waiting, running or successful job.

    A part whose job was ended or failed continues from its stored results.

    Args:
        parts: number of parts.
        key: of the submission.
        known: SkyPilot's managed jobs, including finished jobs.
    """
    newest: dict[int, KnownJob] = {}
    attempts: dict[int, int] = {}
    run_id: str | None = None
    for job in sorted(known, key=lambda one: one.id):
        name = _PART_JOB.fullmatch(job.name)
        if name is not None and name[2] == key and int(name[4]) == parts:
            part = int(name[3]) - 1
            run_id, newest[part], attempts[part] = name[1], job, int(name[5] or 1)
    broken_off = ("CANCEL", "FAILED")
    due = [
        part
        for part in range(parts)
        if part not in newest or newest[part].status.startswith(broken_off)
    ]
    return OutstandingParts({part: attempts.get(part, 0) + 1 for part in due}, run_id)


def new_submission() -> str:
    """Return a name for a submission."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def job_name(text: str) -> str:
    """Return a name that SkyPilot takes for a job."""
    return re.sub("[^A-Za-z0-9]+", "-", text).strip("-")


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:DIGITS]
