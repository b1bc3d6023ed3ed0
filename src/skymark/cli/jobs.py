"""`skymark queue`, `logs` and `cancel`: commands for the jobs of a machine."""

from __future__ import annotations

import json as json_module
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from skymark.cli.caller import print_json, print_plain
from skymark.cli.console import plain_stream
from skymark.cli.parameters import COUNT, MOST, Cluster
from skymark.cli.tables import Json, print_rows, stdout_console
from skymark.model.errors import UsageError

if TYPE_CHECKING:
    from skymark.cloud.sky.jobs import QueuedJob

WATCH_S = 5.0


def queue(
    cluster: Cluster,
    /,
    *,
    watch: Annotated[
        bool, Parameter(name=("--watch", "-w"), help="Show it again and again, until Ctrl-C.")
    ] = False,
    skip_finished: Annotated[
        bool, Parameter(name=("--skip-finished", "-s"), help="Only what waits or runs.")
    ] = False,
    json: Json = False,
) -> int:
    """List a machine's jobs, the newest first."""
    from skymark.cloud.sky.jobs import queued_jobs

    if watch and json:
        raise UsageError("--watch shows a table; leave out --json")
    while True:
        found = queued_jobs(cluster, skip_finished=skip_finished)
        if json:
            print_json(json_module.dumps([one.model_dump(mode="json") for one in found], indent=1))
            return 0
        if watch:
            stdout_console().clear()
        _print_jobs(found)
        if not watch:
            return 0
        time.sleep(WATCH_S)


def _print_jobs(found: Sequence[QueuedJob]) -> None:
    print_rows(
        ("id", "name", "user", "submitted (UTC)", "started", "seconds", "resources", "status"),
        [
            (
                str(one.id),
                one.name,
                one.user,
                _moment(one.submitted_at),
                _moment(one.started_at),
                "" if one.seconds is None else f"{one.seconds:.0f}",
                one.resources,
                one.status,
            )
            for one in found
        ],
    )


def _moment(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def logs(
    cluster: Cluster,
    job: Annotated[
        int | None, COUNT, Parameter(help="Its id in `queue`. [default: the last]")
    ] = None,
    /,
    *,
    job_id: Annotated[int | None, COUNT, Parameter(help="The same.")] = None,
    so_far: Annotated[
        bool, Parameter(name=("--so-far", "--no-follow"), help="Show what there is, and end.")
    ] = False,
    tail: Annotated[
        int, Parameter(validator=Number(gte=0, lte=MOST), help="Only the last lines; 0 for all.")
    ] = 0,
) -> int:
    """Show a job's output from its beginning, until it ends.

    Ctrl-C ends the showing, not the job.
    """
    from skymark.cloud.live import show_log

    if None not in {job, job_id} and job != job_id:
        raise UsageError(f"job {job} and --job-id {job_id} are two; give one")
    one = job if job_id is None else job_id
    shown = show_log(
        cluster, one, plain_stream(sys.stdout), wait_for_end=not so_far, last_lines=tail
    )
    return 0 if shown else 1


def cancel(
    cluster: Cluster,
    /,
    *jobs: Annotated[int, Parameter(help="Ids in `queue`.")],
    all: Annotated[
        bool, Parameter(name=("--all", "-a"), help="Every job that waits or runs.")
    ] = False,
) -> int:
    """Take jobs out of a machine's queue, or end them; the machine stays.

    A run of skymark's writes down what it measured until then, as ~/results/RUN-ID there.
    Exit status: 0 none of them runs, 2 there is no such machine or job.
    """
    from skymark.cloud.sky.jobs import cancel_jobs, queued_jobs

    if all == bool(jobs):
        raise UsageError(f"name jobs, or give --all; `skymark queue {cluster}` shows them")
    found = queued_jobs(cluster)
    if unknown := set(jobs) - {one.id for one in found}:
        raise UsageError(f"{cluster} has no job {min(unknown)}; `skymark queue {cluster}`")
    ended = [one.id for one in found if one.is_going_on and (all or one.id in jobs)]
    cancel_jobs(cluster, ended)
    for one in found:
        if one.id in ended:
            print_plain(f"job {one.id} ({one.name}) is cancelled")
        elif one.id in jobs:
            print_plain(f"job {one.id} ({one.name}) has ended already: {one.status}")
    if not ended and all:
        print_plain("no job waits or runs")
    return 0
