"""Managed jobs that share a plan: their names, by which a submission that broke off is taken up.

A job is named after its run, the submission's key and its part of the plan. So SkyPilot's list of
managed jobs itself tells what another submission of the same has begun.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from skymark.cloud.group_jobs import DIGITS, KnownJob

PREFIX = "skymark-"
"""Of names of machines that skymark hires."""

_NAME = re.compile(rf"{PREFIX}(.+)-([0-9a-f]{{{DIGITS}}})-(\d+)of(\d+)(?:-(\d+))?")


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
        key: of `skymark.cloud.group_jobs.submission_key`.
        part: its number, from 0; people count from 1.
        parts: how many there are.
        attempt: from 1; SkyPilot keeps the names of jobs that have ended.
    """
    name = f"{PREFIX}{run_id}-{key}-{part + 1}of{parts}"
    return name if attempt == 1 else f"{name}-{attempt}"


def outstanding_parts(parts: int, key: str, known: Iterable[KnownJob]) -> OutstandingParts:
    """Return the parts that no job waits for, works on or has done.

    Those whose job was ended or failed are among them: it goes on from what is stored.

    Args:
        parts: how many there are; another number divides the plan otherwise.
        key: of the submission.
        known: SkyPilot's managed jobs, finished ones included.
    """
    newest: dict[int, KnownJob] = {}
    attempts: dict[int, int] = {}
    run_id: str | None = None
    for job in sorted(known, key=lambda one: one.id):
        found = _NAME.fullmatch(job.name)
        if found is not None and found[2] == key and int(found[4]) == parts:
            part = int(found[3]) - 1
            run_id, newest[part], attempts[part] = found[1], job, int(found[5] or 1)
    due = [part for part in range(parts) if part not in newest or _has_broken_off(newest[part])]
    return OutstandingParts({part: attempts.get(part, 0) + 1 for part in due}, run_id)


def _has_broken_off(job: KnownJob) -> bool:
    return job.status.startswith(("CANCEL", "FAILED"))
