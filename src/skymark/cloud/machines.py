"""Existing machines: list, adopt, show and end them, and download their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TextIO

from skymark.cloud.known_machines import (
    RentedMachines,
    all_rented,
    forget,
    is_known,
    known_names,
    note_rented,
    recall,
)
from skymark.cloud.lifecycle.ending import QUIET_S, Gone, prove_gone, prove_job_gone
from skymark.cloud.lifecycle.retrieving import check_home, from_cluster
from skymark.cloud.lifecycle.stages import Finished, Retrieved
from skymark.cloud.machine_script import LATEST, RESULTS
from skymark.cloud.rented_run import IDLE_MINUTES, RentedRun
from skymark.cloud.sky.client import explained, server_fault, sky_program
from skymark.cloud.sky.clusters import (
    LiveMachine,
    ProviderList,
    find_cluster,
    live_clusters,
    profile_of,
    record_of,
)
from skymark.cloud.sky.internals import image_of
from skymark.cloud.sky.jobs import (
    NO_SUCH_JOB,
    NOT_FINISHED,
    JobEnd,
    QueuedJob,
    cancel_jobs,
    find_managed_job,
    live_managed_jobs,
    queued_jobs,
    show_output,
)
from skymark.cloud.sky.ssh import output_of
from skymark.cloud.submissions import PREFIX
from skymark.cloud.waiting import clock_s, in_background
from skymark.execute.planner import load_profile
from skymark.model.errors import CloudError, NoMachineError, UnknownMachineError, UsageError
from skymark.model.record import FILE_NAME
from skymark.model.requests import Machine, Results

Tell = Callable[[str], None]
"""Shows a line of progress."""
ASK_S = 10.0
"""Longest wait for the providers of all noted machines, where SkyPilot does not answer."""


@dataclass(frozen=True)
class MachinesStatus:
    """Existing machines that SkyPilot or a provider reports."""

    machines: tuple[LiveMachine, ...]
    fault: str | None = None
    """Reason why SkyPilot does not answer; then the list has the machines rented from here."""


def status(names: Sequence[str] = ()) -> MachinesStatus:
    """Return the existing machines, as their providers report them.

    Args:
        names: of machines; empty for all.

    Raises:
        UsageError: there is no machine of a name.
    """
    fault = server_fault()
    machines = live_machines() if fault is None else noted_machines()
    if unknown := set(names) - {machine.name for machine in machines}:
        raise NoMachineError(min(unknown))
    chosen = (machine for machine in machines if not names or machine.name in names)
    return MachinesStatus(tuple(chosen), fault)


def cancel(name: str, jobs: Sequence[int] = (), *, all: bool = False) -> list[QueuedJob]:
    """Take jobs out of a machine's queue, or end them; the machine stays.

    Args:
        name: the machine's.
        jobs: their numbers.
        all: every job that waits or runs.

    Returns:
        The jobs, as they were before.

    Raises:
        UsageError: there is no such machine or job.
    """
    listed = queued_jobs(name)
    if unknown := set(jobs) - {job.id for job in listed}:
        raise UsageError(f"{name} has no job {min(unknown)}; `skymark queue {name}`")
    chosen = [job for job in listed if job.id in jobs or (all and job.is_going_on)]
    cancel_jobs(name, [job.id for job in chosen if job.is_going_on])
    return chosen


def collect(name: str, run_id: str | None = None, results: Results = Results()) -> Retrieved:
    """Download the results of a run from a machine that is up; the machine stays.

    Args:
        name: the machine's.
        run_id: the run; None for the launched one, or the newest where none was.
        results: its directory gets the run.

    Raises:
        UsageError: there is no such machine or run.
    """
    run = run_of_machine(name)
    wanted = (run.run_id if run_id is None else require_run_id(run_id)) or newest_run(name)
    if run.lasting_store is not None:
        raise UsageError(
            f"{name} is a managed job, and its results are in its store: skymark fetch "
            f"{run.lasting_store}/{wanted} DIRECTORY"
        )
    if wanted != run.run_id:
        run = run.changed(run_id=wanted, plan_hash=None, stores=())
    if find_cluster(name, refresh=False) is None:
        raise NoMachineError(name)
    check_home(results.directory)
    return from_cluster(Finished(run), results.directory)


def run_of_machine(name: str, profile: str | None = None) -> RentedRun:
    """Return the run of a machine, with its machine and its limits.

    Args:
        name: the machine's.
        profile: replaces the profile of its launch.

    Raises:
        UsageError: the machine does not exist, or its profile is unknown.
    """
    try:
        run = recall(name)
    except UnknownMachineError:
        return _adopted(name, profile)
    return run if profile is None else run.changed(profile=profile)


def profile_of_machine(name: str, *, of_suite_of: str) -> str | None:
    """Return the profile of a machine's launch if it has the same suite as another profile.

    Args:
        name: the machine's.
        of_suite_of: the other profile.

    Returns:
        None if the machine was rented elsewhere or for another suite, or the profile no longer
        exists.
    """
    with suppress(UsageError):
        made_for = recall(name).profile
        if load_profile(made_for).suite == load_profile(of_suite_of).suite:
            return made_for
    return None


def newest_run(cluster: str) -> str:
    """Return the id of the newest run that the head of a cluster has.

    Raises:
        UsageError: there is none.
    """
    newest = output_of(cluster, ("readlink", f"{RESULTS}/{LATEST}"))
    if not newest:
        raise UsageError(f"{cluster} has no run yet; `skymark queue {cluster}` shows its jobs")
    return require_run_id(newest)


def require_run_id(text: str) -> str:
    """Return the id of a run, which becomes a directory's name.

    Raises:
        UsageError: it is none.
    """
    if not FILE_NAME.fullmatch(text):
        raise UsageError(f"{text!r} is no id of a run; `skymark ssh NAME -- ls results` lists them")
    return text


def _adopted(name: str, profile: str | None) -> RentedRun:
    record = record_of(name)
    handle = record["handle"]
    made_for = profile or profile_of(record)
    if made_for is None:
        raise UsageError(
            f"{name} was made by another YAML than skymark's (benchmarks/sky), so its profile is "
            "not known; give --profile, or a command after --"
        )
    minutes = record["autostop"]
    machine = Machine(name=name, nodes=handle.launched_nodes, image=image_of(handle), keep=True)
    return RentedRun(
        name=name,
        run_id="",
        profile=made_for,
        plan_hash=None,
        machine=machine,
        idle_minutes=minutes if minutes and minutes > 0 else IDLE_MINUTES,
    )


def live_machines(*, refresh: bool = True) -> list[LiveMachine]:
    """Return every existing machine of skymark's, and every active managed job.

    It includes machines rented from here that SkyPilot has forgotten and that are not proved gone.

    Args:
        refresh: ask the providers, instead of using the last known state.
    """
    live = [
        machine
        for machine in (*live_clusters(refresh=refresh), *live_managed_jobs())
        if machine.name.startswith(PREFIX) or is_known(machine.name)
    ]
    return [*live, *forgotten_machines({machine.name for machine in live}, refresh=refresh)]


def noted_machines() -> list[LiveMachine]:
    """Return the machines rented from here and not proved gone, without SkyPilot.

    Their providers have seconds to answer.
    """
    noted, until_s = {machine.name: machine for machine in all_rented()}, clock_s() + ASK_S
    for name in known_names() - noted.keys():
        noted[name] = RentedMachines(name=name, cluster=name)
    unproved = [
        _unproved(machine, _state_of(machine, until_s)) for _, machine in sorted(noted.items())
    ]
    return [
        machine.model_copy(update={"idle_minutes": _idle_minutes(machine.name)})
        for machine in unproved
    ]


def _idle_minutes(name: str) -> int | None:
    try:
        return recall(name).idle_minutes
    except UsageError:
        return None


def _state_of(machines: RentedMachines, until_s: float) -> str:
    provider = ProviderList()
    if not provider.can_be_asked(machines):
        return "unknown"
    try:
        listed = in_background(lambda: provider.look(machines), max(0.1, until_s - clock_s()))
    except (CloudError, TimeoutError):
        return "unknown, its provider does not answer"
    return "running" if any(listed.values()) else "not listed by its provider"


def names_of_machines() -> list[str]:
    """Return the names of all machines that may exist, even if SkyPilot does not answer."""
    noted = {machine.name for machine in all_rented()}
    if server_fault() is not None:
        return sorted(noted)
    try:
        return sorted(noted | {machine.name for machine in live_machines(refresh=False)})
    except CloudError:
        return sorted(noted)


def show_log(
    name: str, job: int | None, log: TextIO, *, wait_for_end: bool, last_lines: int = 0
) -> bool:
    """Show a job's output.

    Args:
        name: the machine's or the managed job's.
        job: its number; None for the last job, and for a managed job.
        log: gets the output.
        wait_for_end: continue until the job ends.
        last_lines: number of last lines to start with; 0 starts at the beginning.

    Returns:
        Whether the job has not failed, so far.

    Raises:
        UsageError: there is no such machine or job, or a managed job was given a number.
    """
    managed = find_managed_job(name) if find_cluster(name, refresh=False) is None else None
    if managed is not None and job is not None:
        raise UsageError(f"{name} is one managed job; leave out the number {job}")
    with explained(f"the log of {name}"):
        if managed is not None:
            in_background(lambda: managed.show(log, follow=wait_for_end, tail=last_lines))
            return managed.ended() in {None, JobEnd.SUCCEEDED}
        code = in_background(
            lambda: show_output(name, job, log, follow=wait_for_end, tail=last_lines)
        )
    if code == NO_SUCH_JOB:
        raise UsageError(f"{name} has no job {job}; `skymark queue {name}` shows its jobs")
    return code in {0, NOT_FINISHED}


def down(name: str, tell: Tell) -> Gone:
    """End a machine, or a managed job, and return when it is gone.

    Raises:
        UsageError: there is none, or it is not skymark's.
        StillBillingError: it is not proved gone.
    """
    known = is_known(name)
    if not known and not name.startswith(PREFIX):
        raise UsageError(
            f"{name} was not rented by skymark; nothing was ended. `{sky_program()} down {name}` "
            "ends what is not skymark's"
        )
    if (fault := server_fault()) is not None:
        if not known:
            raise CloudError(fault)
        tell(f"{fault}. Ending {name} all the same")
        return prove_gone(name, tell)
    try:
        there = find_cluster(name, refresh=False) is not None
        managed = None if there else find_managed_job(name)
    except CloudError as error:
        if not known:
            raise
        tell(f"SkyPilot does not answer ({error}); ending {name} all the same")
        return prove_gone(name, tell)
    if managed is not None:
        return prove_job_gone(name, tell, managed)
    if not there and not known:
        raise NoMachineError(name)
    return prove_gone(name, tell)


def forgotten_machines(names: set[str], *, refresh: bool) -> Iterator[LiveMachine]:
    """Return the machines without a record in SkyPilot that are not proved gone.

    A machine that ended itself is dropped if its provider confirms it.

    Args:
        names: of the machines with a record in SkyPilot.
        refresh: ask the providers.
    """
    provider = ProviderList()
    for machines in all_rented():
        if machines.name in names:
            continue
        status = None if machines.not_ended_since is None else "not proved gone"
        if refresh and provider.can_be_asked(machines):
            try:
                if any(provider.look(machines).values()):
                    status = "running, not proved gone"
                elif status is None:
                    _note_absence(machines)
            except CloudError as error:
                status = None if status is None else f"{status} ({error})"
        if status is not None:
            yield _unproved(machines, status)


def _note_absence(machines: RentedMachines) -> None:
    """Record that a provider does not list machines, and forget them after a while."""
    now_s, since_s = clock_s(), machines.absent_since_s
    if since_s is None or since_s > now_s:  # by a clock that begins anew with this machine
        note_rented(machines.model_copy(update={"absent_since_s": now_s}))
    elif now_s - since_s > QUIET_S:
        forget(machines.name)


def _unproved(machines: RentedMachines, status: str) -> LiveMachine:
    return LiveMachine(
        name=machines.name,
        status=status,
        machine=machines.kind,
        nodes=max(1, len(machines.ids)),
        launched_at=None,
        idle_minutes=None,
        hourly_price_usd=machines.hourly_price_usd,
        cost_usd=None,
    )
