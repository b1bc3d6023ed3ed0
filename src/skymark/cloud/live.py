"""Live machines and managed jobs: list them, show their output, end them."""

from __future__ import annotations

from typing import TextIO

from skymark.cloud.lifecycle.ending import prove_gone, prove_job_gone
from skymark.cloud.lifecycle.screen import Say
from skymark.cloud.sky.clusters import LiveMachine, find_cluster, live_clusters
from skymark.cloud.sky.jobs import show_output
from skymark.cloud.sky.managed_jobs import (
    find_managed_job,
    live_managed_jobs,
    show_managed_output,
)
from skymark.model.errors import UsageError

PREFIX = "skymark-"


def live_machines(*, refresh: bool = True) -> list[LiveMachine]:
    """Return every machine of skymark's that is there, and every managed job that goes on.

    Args:
        refresh: ask the providers, instead of telling what was known last.
    """
    found = (*live_clusters(refresh=refresh), *live_managed_jobs())
    return [one for one in found if one.name.startswith(PREFIX)]


def show_log(name: str, job: int | None, log: TextIO, *, wait_for_end: bool) -> bool:
    """Show a job's output from its beginning.

    Args:
        name: the machine's; or that of a managed job, which has no number.
        job: its number; None for the last.
        log: gets the output.
        wait_for_end: go on until it ends.

    Returns:
        Whether the job has not failed, so far.

    Raises:
        UsageError: there is no such machine or job, or a managed job was given a number.
    """
    managed = find_managed_job(name) if find_cluster(name, refresh=False) is None else None
    if managed is None:
        return show_output(name, job, log, wait_for_end=wait_for_end)
    if job is not None:
        raise UsageError(f"{name} is one managed job; leave out the number {job}")
    return show_managed_output(managed, log, wait_for_end=wait_for_end)


def down(name: str, say: Say) -> float:
    """End a machine, or a managed job, and return when it is gone, with the seconds that it took.

    Raises:
        UsageError: there is none.
        StillBillingError: it does not end.
    """
    record = find_cluster(name, refresh=False)
    managed = find_managed_job(name) if record is None else None
    if managed is not None:
        return prove_job_gone(managed, say)
    if record is None:
        raise UsageError(f"there is no machine {name}; `skymark status` shows what is")
    return prove_gone(name, say, record)
