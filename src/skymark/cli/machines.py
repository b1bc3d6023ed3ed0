"""`skymark status`, `rsync`, `ssh`, `down` and `collect`: commands for machines that are there."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from skymark import cloud
from skymark.cli.caller import note, print_json, print_plain, say
from skymark.cli.console import plain_stream
from skymark.cli.parameters import COUNT, MOST, NODE, Cluster, Output
from skymark.cli.tables import Json, print_rows, stdout_console
from skymark.execute.project_file import results_directory
from skymark.model.errors import SkymarkError, UsageError
from skymark.model.requests import Results
from skymark.model.sizes import count_of

if TYPE_CHECKING:
    from skymark.cloud import QueuedJob


def status(
    *clusters: Annotated[str, Parameter(help="Only these machines. [default: all]")],
    json: Json = False,
) -> int:
    """List the rented machines and their cost until now.

    Asks their providers. If SkyPilot does not answer, the list has the machines that were rented
    from here.

    Examples:
      skymark status
      skymark status NAME --json

    Exit status: 0, or 1 if SkyPilot does not answer.
    """
    known = cloud.status(clusters)
    if known.fault is not None:
        say(
            f"{known.fault}. This list has only machines that were rented from here; "
            "`skymark down` ends them"
        )
    if json:
        print_json(known.machines)
    elif not known.machines:
        none = "no machine is running" if known.fault is None else "no machine is known here"
        print_plain(none)
    else:
        print_rows(
            ("machine", "status", "hardware", "idle timer", "USD/h", "USD so far"),
            [
                (
                    machine.name,
                    machine.status,
                    machine.machine,
                    "none" if machine.idle_minutes is None else f"{machine.idle_minutes} min",
                    _amount(machine.hourly_price_usd, 2),
                    _amount(machine.cost_usd, 4),
                )
                for machine in known.machines
            ],
        )
    return 0 if known.fault is None else 1


def rsync(
    source: Annotated[str, Parameter(help="MACHINE:PATH, or a path here.")],
    target: Annotated[str, Parameter(help="A path here, or MACHINE:PATH.")],
    /,
) -> int:
    """Copy files from a machine or to it.

    A path there without a leading slash is below the home directory, where runs are in results.

    Examples:
      skymark rsync NAME:results/ ./results
      skymark rsync ./data NAME:data
    """
    cloud.copy(source, target)
    return 0


def ssh(
    cluster: Cluster,
    /,
    *command: Annotated[str, Parameter(help="Command, after --. [default: a shell]")],
    node: Annotated[
        int, NODE, Parameter(help="Number of the machine in its cluster; 0 is the head.")
    ] = 0,
) -> int:
    """Open a shell on a machine, or run a command there.

    Examples:
      skymark ssh NAME
      skymark ssh NAME -- nvidia-smi

    Exit status: the command's own; 255 if the machine does not answer.
    """
    return cloud.shell(cluster, command, node)


def down(
    *clusters: Annotated[str, Parameter(help="Names from `skymark status`.")],
    all: Annotated[
        bool, Parameter(name=("--all", "-a"), help="Every machine that skymark rented.")
    ] = False,
    json: Json = False,
) -> int:
    """End machines, and check with their provider that they are gone.

    Ends only machines that skymark rented. After Ctrl-C it prints the machines that remain and the
    command that ends them; a second Ctrl-C leaves at once.

    Examples:
      skymark down NAME
      skymark down --all

    Exit status: 0 all are gone; 1 a machine is there or not proved gone, and skymark prints its
    id, its price and the command that ends it; 2 no such machine of skymark's.
    """
    if all == bool(clusters):
        raise UsageError("name machines, or give --all; `skymark status` lists them")
    names = cloud.names_of_machines() if all else list(clusters)
    if not (names or json):
        print_plain("no machine is running")
    faults: list[SkymarkError] = []
    ended: list[dict[str, object]] = []
    for name in names:  # one that does not end must not keep the others running
        try:
            gone = cloud.down(name, say)
            ended.append({"machine": name, "proved_gone": gone.proved, "seconds": gone.after_s})
            if not json:
                print_plain(gone.of(name))
        except SkymarkError as error:
            faults.append(error)
            ended.append({"machine": name, "proved_gone": False, "fault": str(error)})
            say(str(error))
    if json:
        print_json(ended)
    return max((fault.exit_code for fault in faults), default=0)


def collect(
    cluster: Cluster,
    run_id: Annotated[
        str | None,
        Parameter(help="The run. [default: the launched run; after `sky launch` the newest]"),
    ] = None,
    /,
    *,
    output: Output = None,
    down: Annotated[
        bool, Parameter(help="End the machine once all files of the run are verified here.")
    ] = False,
    json: Json = False,
) -> int:
    """Copy a run's results from a machine to here.

    Compares every file with the machine's and with the run's digests. The machine stays until its
    idle timer ends it, unless you add --down.

    Examples:
      skymark collect NAME
      skymark collect NAME RUN-ID --down

    Exit status: 0 the results are whole; 1 some are missing or damaged; 2 no such machine or run.
    """
    retrieved = cloud.collect(cluster, run_id, Results(directory=output or results_directory()))
    results = retrieved.results
    for problem in retrieved.problems:
        say(problem)
    if results is not None and results.records:
        note(f"{results.directory}: {count_of(sum(results.records.values()), 'record')}")
    if down and retrieved.safe:
        cloud.down(cluster, say)
    if json:
        from skymark.cli.terminal import retrieved_json

        print_json(retrieved_json(retrieved))
    return 0 if results is not None and results.whole and not retrieved.problems else 1


def _amount(value: float | None, digits: int) -> str:
    return "unknown" if value is None else f"{value:.{digits}f}"


WATCH_S = 5.0


def queue(
    cluster: Cluster,
    /,
    *,
    watch: Annotated[
        bool, Parameter(name=("--watch", "-w"), help="Refresh the table until Ctrl-C.")
    ] = False,
    skip_finished: Annotated[
        bool, Parameter(name=("--skip-finished", "-s"), help="Only jobs that wait or run.")
    ] = False,
    json: Json = False,
) -> int:
    """List the jobs of a machine, the newest first.

    Examples:
      skymark queue NAME
      skymark queue NAME --watch --skip-finished
    """
    if watch and json:
        raise UsageError("--watch shows a table; leave out --json")
    while True:
        listed = cloud.queued_jobs(cluster, skip_finished=skip_finished)
        if json:
            print_json(listed)
            return 0
        if watch:
            stdout_console().clear()
        _print_jobs(listed)
        if not watch:
            return 0
        time.sleep(WATCH_S)


def _print_jobs(listed: Sequence[QueuedJob]) -> None:
    print_rows(
        ("id", "name", "user", "submitted (UTC)", "started", "seconds", "resources", "status"),
        [
            (
                str(job.id),
                job.name,
                job.user,
                _moment(job.submitted_at),
                _moment(job.started_at),
                "" if job.seconds is None else f"{job.seconds:.0f}",
                job.resources,
                job.status,
            )
            for job in listed
        ],
    )


def _moment(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def logs(
    cluster: Cluster,
    job: Annotated[
        int | None, COUNT, Parameter(help="Number in `skymark queue`. [default: the last job]")
    ] = None,
    /,
    *,
    job_id: Annotated[int | None, COUNT, Parameter(help="SkyPilot's word for JOB.")] = None,
    so_far: Annotated[
        bool, Parameter(name=("--so-far", "--no-follow"), help="Show the present output, and end.")
    ] = False,
    tail: Annotated[
        int,
        Parameter(
            validator=Number(gte=0, lte=MOST), metavar="N", help="Only the last N lines; 0 for all."
        ),
    ] = 0,
) -> int:
    """Show the output of a job, until it ends.

    Ctrl-C ends the display, not the job.

    Examples:
      skymark logs NAME
      skymark logs NAME 3 --so-far --tail 20

    Exit status: 0 the job ended well or --so-far was given; 1 the job failed.
    """
    if None not in {job, job_id} and job != job_id:
        raise UsageError(f"job {job} and --job-id {job_id} differ; give one job")
    shown = cloud.show_log(
        cluster,
        job if job_id is None else job_id,
        plain_stream(sys.stdout),
        wait_for_end=not so_far,
        last_lines=tail,
    )
    return 0 if shown else 1


def cancel(
    cluster: Cluster,
    /,
    *jobs: Annotated[int, Parameter(help="Numbers in `skymark queue`.")],
    all: Annotated[
        bool, Parameter(name=("--all", "-a"), help="All jobs that wait or run.")
    ] = False,
    json: Json = False,
) -> int:
    """Cancel jobs of a machine; the machine stays.

    The results of a cancelled run stay on the machine, in ~/results/RUN-ID.

    Examples:
      skymark cancel NAME 3 4
      skymark cancel NAME --all

    Exit status: 0 none of these jobs runs; 2 no such machine or job.
    """
    if all == bool(jobs):
        raise UsageError(f"name jobs, or give --all; `skymark queue {cluster}` shows them")
    cancelled = cloud.cancel(cluster, jobs, all=all)
    if json:
        print_json(cancelled)
        return 0
    for job in cancelled:
        if job.is_going_on:
            print_plain(f"job {job.id} ({job.name}) is cancelled")
        else:
            print_plain(f"job {job.id} ({job.name}) has ended already: {job.status}")
    if all and not cancelled:
        print_plain("no job waits or runs")
    return 0
