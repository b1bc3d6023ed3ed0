"""Runs on rented machines: on a new one that ends with the run, or on one that is there."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from skymark.cloud.cost.quote import Quote
from skymark.cloud.known_machines import known_names
from skymark.cloud.lifecycle.clusters import NewCluster, carry_out_all, queue
from skymark.cloud.lifecycle.ending import named_where_left
from skymark.cloud.lifecycle.following import follow
from skymark.cloud.lifecycle.managed import ManagedPlace
from skymark.cloud.lifecycle.quoting import (
    machine_there,
    on_all_gpus,
    quote_machines,
    quote_run,
    quote_there,
)
from skymark.cloud.lifecycle.retrieving import check_home
from skymark.cloud.lifecycle.stages import (
    SILENT,
    Callbacks,
    Ended,
    Kept,
    Left,
    Quoted,
    carry_out,
    rent_and_leave,
)
from skymark.cloud.machines import run_of_machine
from skymark.cloud.rented_run import (
    RentedRun,
    check_stores,
    cluster_name,
    idle_minutes_for,
    lasting_store,
    limits_of,
    limits_there,
    require_time_before,
    split_of_machines,
)
from skymark.cloud.sky.client import explained, leaves_no_server
from skymark.cloud.sky.clusters import handle_of, names_in_use
from skymark.cloud.sky.jobs import (
    JobEnd,
    MachineJob,
    await_job,
    check_controller,
    live_managed_jobs,
    request_job,
)
from skymark.cloud.sky.ssh import send_source
from skymark.cloud.sky.tasks import make_user_task, part_of
from skymark.cloud.source import source_for
from skymark.cloud.submissions import new_submission
from skymark.execute.planner import load_profile, planned, require_data
from skymark.execute.slots import require_shareable
from skymark.model.base import Frozen
from skymark.model.errors import GateError, UsageError
from skymark.model.plan import Plan
from skymark.model.requests import Job, Limits, Machine, Results, Work
from skymark.rundir.history import read_history
from skymark.rundir.layout import new_run_id


class Estimate(Frozen):
    """Cost of a plan on every machine with a known price, and its limits."""

    quote: Quote
    """Quote with one process on each machine."""
    shared: Quote | None
    """Quote with `submit`'s workers on all GPUs of the machine; None if that adds no workers."""
    limits: Limits
    plan: Plan

    @property
    def best(self) -> Quote:
        """The quote of workers on all GPUs, if there is one."""
        return self.quote if self.shared is None else self.shared


def quote(
    work: Work | Plan,
    machine: Machine = Machine(),
    limits: Limits = Limits(),
    results: Results = Results(),
    job: Job = Job(),
    callbacks: Callbacks = SILENT,
) -> Estimate:
    """Estimate the cost of work on rented machines, without renting or any query to a provider.

    Args:
        work: the cells.
        machine: the machines.
        limits: they replace the profile's.
        results: the earlier runs in its directory show how long cells take.
        job: its split says how the machines share the plan.
        callbacks: they get a message if a price catalogue is fetched.

    Raises:
        UsageError: SkyPilot is not installed, or no price is known.
    """
    plan, profile = planned(work)
    whole = limits_of(load_profile(profile), limits, machine.nodes)
    require_time_before(plan, whole.deadline_s)
    history = read_history(results.directory, plan)
    alone = quote_machines(
        plan, profile, machine, whole.deadline_s, job.split, history, callbacks.tell
    )
    shared = on_all_gpus(alone, plan, history, bounded=limits.deadline_s is not None)
    return Estimate(quote=alone, shared=shared, limits=whole, plan=plan)


@leaves_no_server
def launch(
    work: Work | Plan,
    machine: Machine = Machine(),
    limits: Limits = Limits(),
    results: Results = Results(),
    job: Job = Job(),
    callbacks: Callbacks | None = None,
    *,
    detach: bool = False,
    dry_run: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Ended | Kept | Left | Quoted:
    """Rent a machine, do the work, download the results, and prove the machine gone.

    The machine ends before this returns or raises. There are three exceptions: The machine has
    results that are verified nowhere else, it is to stay, or the user leaves it running.

    Args:
        work: the cells.
        machine: the machine.
        limits: they replace the profile's. The machine keeps them itself.
        results: the directory gets the run. The stores get each cell after its measurement.
        job: name, variables, secrets, files, and the way machines share the plan.
        callbacks: they get the progress, and answer questions about price and interruption.
            None: silent; a ceiling in `limits` is consent to the price.
        detach: return when the job is in the machine's queue.
        dry_run: price it, and rent nothing.
        environment: it has the keys of stores.

    Returns:
        The end of the run; `Quoted` for a dry run.

    Raises:
        UsageError: nothing was rented: an option is wrong, or credentials are missing.
        GateError: nothing was rented: it may cost more than the ceiling, or the user declined.
        StillBillingError: a machine is not proved gone; the message has its id and price.
    """
    callbacks = callbacks or Callbacks(agrees=limits.max_cost_usd is not None)
    plan, profile = planned(work)
    known = {**environment, **job.variables, **job.secrets}
    if machine.idle and job.split is not None:
        raise UsageError("--idle runs nothing, so nothing is split; give --split to skymark exec")
    if machine.managed and detach:
        raise UsageError("--managed downloads the run from its store; leave out -d")
    whole = limits_of(load_profile(profile), limits, machine.nodes)
    if job.all_gpus:
        require_shareable(plan, "leave out the GPUs' number")
        whole = whole.changed(deadline_s=limits.deadline_s)
        if detach:
            lasting_store(results.stores, "--detach")
    require_time_before(plan, whole.deadline_s)
    split_of_machines(job.split, machine.nodes)
    require_data(job.cache_policy, plan)
    check_home(results.directory)
    source = source_for([plan], job.files, with_source=machine.image is None)
    callbacks.sends(source)
    taken = names_in_use() | {job.name for job in live_managed_jobs()} | known_names()
    name = _free_name(machine.name, taken) or cluster_name(plan.profile, taken)
    idle_minutes = idle_minutes_for(machine, results.stores, known)
    run = RentedRun(
        name=name,
        run_id=new_run_id(plan.profile, datetime.now(UTC)),
        profile=profile,
        plan_hash=plan.hash,
        # Whoever comes back may have put jobs of another kind there.
        machine=machine.changed(keep=True) if detach and not job.all_gpus else machine,
        limits=whole,
        job=job,
        stores=results.stores,
        idle_minutes=idle_minutes,
        source=source.directory,
    )
    quoted = quote_run(run, plan, results.directory, known)
    if machine.managed:
        check_controller()
    callbacks.show(quoted)
    if dry_run:
        return quoted
    if not callbacks.agree(quoted):
        raise GateError("nothing was rented: the price was not agreed to")
    check_stores(results.stores, run.run_id, known)
    callbacks.begin(run.run_id)
    place = ManagedPlace() if machine.managed else NewCluster()
    with named_where_left(run.name, callbacks.tell):
        if machine.idle or detach:
            return rent_and_leave(quoted, place, callbacks)
        return carry_out(quoted, place, callbacks, results.directory)


def _free_name(wanted: str | None, taken: Collection[str]) -> str | None:
    """Return the name that a user wants for a machine; None for none.

    Raises:
        UsageError: it is taken.
    """
    if wanted in taken:
        raise UsageError(
            f"--cluster {wanted}: there is such a machine; give another name, run on it with "
            f"`skymark exec {wanted}`, or end it with `skymark down {wanted}`"
        )
    return wanted


def execute(
    name: str,
    works: Mapping[str, Work | Plan],
    limits: Limits = Limits(),
    results: Results = Results(),
    job: Job = Job(),
    callbacks: Callbacks = SILENT,
    *,
    detach: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> list[Ended | Kept | Left]:
    """Run plans one after another on an existing machine, without set-up; the machine stays.

    Args:
        name: the machine's.
        works: by a suffix of the run's name, valid in a directory name; empty for a single work.
            All have the same profile.
        limits: limits of each run. None: the profile's deadline, and the higher ceiling of the
            machine and the profile.
        results: the directory gets the runs. The stores get each cell after its measurement.
        job: the part of the machine for each run, name, variables, secrets and files.
        callbacks: they get prices and progress. Ctrl-C cancels unfinished runs.
        detach: return when the jobs are in the machine's queue.
        environment: it has the keys of stores.

    Returns:
        The end of each run, in order; `Left` if detached.

    Raises:
        UsageError: nothing was queued: there is no such machine, or an option is wrong.
        GateError: nothing was queued: a run is expected to cost more than its ceiling.
        CloudError: the machine did not take the jobs; its queue has none of them.
    """
    found = {point: planned(work) for point, work in works.items()}
    plans = {point: plan for point, (plan, _) in found.items()}
    profiles = sorted({profile for _, profile in found.values()})
    if len(profiles) != 1:
        raise UsageError(
            f"the requests are of {', '.join(profiles) or 'no profile'}; give requests of one "
            "profile, such as skymark.Work(profile='gpu_h100')"
        )
    known = run_of_machine(name, profiles[0])
    if job.nodes is not None:
        check_nodes(name, job.nodes, known.machine.nodes)
    handle = handle_of(name)
    if job.gpus is not None:
        part_of(handle.launched_resources, job.gpus)  # refused before the price is asked
    split_of_machines(job.split, job.nodes or known.machine.nodes)
    whole = limits_there(known, limits, load_profile(known.profile))
    variables = {**environment, **job.variables, **job.secrets}
    source = source_for(plans.values(), job.files, with_source=known.machine.image is None)
    callbacks.sends(source)
    for plan in plans.values():
        require_time_before(plan, whole.deadline_s)
        require_data(job.cache_policy, plan)
    run_id = new_run_id(known.profile, datetime.now(UTC))
    shared = {
        "machine": known.machine.changed(keep=True, idle=False),
        "limits": whole,
        "stores": results.stores,
        "source": source.directory,
        "submission": None if known.machine.image else new_submission(),
    }
    offer = machine_there(name, handle, limits.max_cost_usd)
    runs = []
    for point, plan in plans.items():
        behind = f"-{point}" if point else ""
        work = Job(
            **{
                **dict(job),
                "name": None if job.name is None else f"{job.name}{behind}",
                "nodes": None if job.nodes == known.machine.nodes else job.nodes,
            }
        )
        run = known.changed(run_id=f"{run_id}{behind}", plan_hash=plan.hash, job=work, **shared)
        history = read_history(results.directory, plan)
        runs.append(quote_there(run, plan, history, offer, variables))
    for quoted in runs:
        callbacks.show(quoted)
    check_home(results.directory)
    check_stores(results.stores, run_id, variables)
    callbacks.begin(runs[0].run.run_id)
    if detach:
        queue(runs, callbacks)
        return [Left(quoted.run) for quoted in runs]
    return [*carry_out_all(runs, callbacks, results.directory)]


def queue_commands(
    name: str, jobs: Sequence[Job], callbacks: Callbacks = SILENT
) -> list[MachineJob]:
    """Put the user's own commands or YAMLs into a machine's queue, each with its source.

    Args:
        name: the machine's.
        jobs: the jobs in their order.
        callbacks: they get the list of files before skymark sends them.

    Raises:
        UsageError: the machine does not exist or lacks resources for a job, or a file may not be
            sent.
        CloudError: it did not take a job; earlier jobs stay.
    """
    queued, handle = [], handle_of(name)
    for job in jobs:
        submission = new_submission()
        task, source = make_user_task(job, handle.launched_resources, submission)
        check_nodes(name, task.num_nodes, handle.launched_nodes)
        if source is not None and source.directory is not None:
            callbacks.sends(source)
            send_source(name, handle.launched_nodes, source.directory, submission)
        with explained(f"{name} did not take the job"):
            queued.append(await_job(request_job(task, name), name))
        words = f": {' '.join(job.words)}" if len(jobs) > 1 else ""
        number = queued[-1].number
        callbacks.tell(f"job {number} of {name}{words}; skymark logs {name} {number}")
    return queued


def follow_commands(jobs: Sequence[MachineJob], callbacks: Callbacks = SILENT) -> bool:
    """Show the output of jobs until they end; returns whether all succeeded.

    Raises:
        CloudError: the machine is gone, or out of reach for long.
    """
    ends = [follow(job, callbacks.log, callbacks.tell, None) for job in jobs]
    return all(end is JobEnd.SUCCEEDED for end in ends)


def check_nodes(name: str, wanted: int, there: int) -> None:
    """Refuse a job for more machines than a cluster has.

    Raises:
        UsageError: it is one.
    """
    if wanted > there:
        raise UsageError(f"--num-nodes {wanted}: {name} has {there}")
