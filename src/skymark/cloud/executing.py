"""Runs on an existing machine: plans, one after another, or the user's own commands."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from skymark.cloud.lifecycle.following import follow
from skymark.cloud.lifecycle.kept_machine import carry_out_all, queue
from skymark.cloud.lifecycle.quoting import machine_there, quote_there
from skymark.cloud.lifecycle.retrieving import check_home
from skymark.cloud.lifecycle.stages import SILENT, Callbacks, Ended, Kept, Left
from skymark.cloud.machines import run_of_machine
from skymark.cloud.rented_run import (
    RentedRun,
    limits_of,
    require_time_before,
    split_of_machines,
)
from skymark.cloud.sky.client import explained
from skymark.cloud.sky.clusters import handle_of
from skymark.cloud.sky.jobs import JobEnd, MachineJob, await_job, request_job
from skymark.cloud.sky.queued_tasks import make_user_task
from skymark.cloud.sky.ssh import send_source
from skymark.cloud.source import source_for
from skymark.cloud.stores import check_stores
from skymark.cloud.submissions import new_submission
from skymark.execute.named_data import require_data
from skymark.execute.planner import load_profile, planned
from skymark.model.errors import UsageError
from skymark.model.plan import Plan
from skymark.model.requests import Job, Limits, Results, Work
from skymark.rundir.history import read_history
from skymark.rundir.layout import new_run_id


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
        limits: of each run. None: the profile's deadline, and the higher ceiling of the machine and
            the profile.
        results: its directory gets the runs, its stores each cell as it is measured.
        job: the part of the machine for each run, name, variables, secrets and files.
        callbacks: get prices and progress; Ctrl-C cancels unfinished runs.
        detach: return when the jobs are in the machine's queue.
        environment: has the keys of stores.

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
    split_of_machines(job.split, job.nodes or known.machine.nodes)
    whole = limits_there(known, limits)
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
    offer = machine_there(name, limits.max_cost_usd)
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
        jobs: in their order.
        callbacks: get the list of files before they are sent.

    Raises:
        UsageError: the machine does not exist or lacks resources for a job, or a file may not be
            sent.
        CloudError: it did not take a job; earlier jobs stay.
    """
    queued = []
    for job in jobs:
        handle = handle_of(name)
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


def limits_there(known: RentedRun, given: Limits) -> Limits:
    """Return the limits of a run on an existing machine.

    Without a given ceiling, the higher ceiling of the machine and the profile counts.
    """
    of_profile = limits_of(load_profile(known.profile), given, known.machine.nodes)
    ceilings = [known.limits.max_cost_usd, of_profile.max_cost_usd]
    most_usd = max((usd for usd in ceilings if usd is not None), default=None)
    return Limits(
        deadline_s=of_profile.deadline_s,
        max_cost_usd=most_usd if given.max_cost_usd is None else given.max_cost_usd,
    )


def check_nodes(name: str, wanted: int, there: int) -> None:
    """Refuse a job for more machines than a cluster has.

    Raises:
        UsageError: it is one.
    """
    if wanted > there:
        raise UsageError(f"--num-nodes {wanted}: {name} has {there}")
