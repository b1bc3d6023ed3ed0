"""Launch of a run on a rented machine: price, hire, follow, download, verify, end, bill."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from skymark.cloud.cost.quote import Quote
from skymark.cloud.known_machines import known_names
from skymark.cloud.lifecycle.carrying_out import carry_out, hire_and_leave
from skymark.cloud.lifecycle.ending import named_where_left
from skymark.cloud.lifecycle.managed import ManagedPlace
from skymark.cloud.lifecycle.new_cluster import NewCluster
from skymark.cloud.lifecycle.quoting import on_all_gpus, quote_machines, quote_run
from skymark.cloud.lifecycle.retrieving import check_home
from skymark.cloud.lifecycle.stages import SILENT, Callbacks, Ended, Kept, Left, Quoted
from skymark.cloud.rented_run import (
    RentedRun,
    cluster_name,
    idle_minutes_for,
    limits_of,
    require_time_before,
    split_of_machines,
)
from skymark.cloud.sky.client import leaves_no_server
from skymark.cloud.sky.clusters import names_in_use
from skymark.cloud.sky.managed_jobs import check_controller, live_managed_jobs
from skymark.cloud.source import source_for
from skymark.cloud.stores import check_stores
from skymark.execute.named_data import require_data
from skymark.execute.planner import load_profile, planned
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
        limits: in place of the profile's.
        results: its directory's earlier runs tell how long cells take.
        job: its split is the way the machines share the plan.
        callbacks: told of a price catalogue that is fetched.

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
    """Hire a machine, do the work, download the results, and prove the machine gone.

    The machine is always ended before this returns or raises, with three exceptions: it has results
    that are verified nowhere else, it is to stay, or the user leaves it running.

    Args:
        work: the cells.
        machine: the machine.
        limits: in place of the profile's; the machine keeps them itself.
        results: its directory gets the run, its stores each cell as it is measured.
        job: name, variables, secrets, files, and the way machines share the plan.
        callbacks: get the progress, and answer questions about price and interruption. None:
            silent; a ceiling in `limits` is consent to the price.
        detach: return when the job is in the machine's queue.
        dry_run: price it, and hire nothing.
        environment: has the keys of stores.

    Returns:
        The end of the run; `Quoted` for a dry run.

    Raises:
        UsageError: nothing was hired: an option is wrong, or credentials are missing.
        GateError: nothing was hired: it may cost more than the ceiling, or the user declined.
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
    require_time_before(plan, whole.deadline_s)
    split_of_machines(job.split, machine.nodes)
    require_data(job.cache_policy, plan)
    check_home(results.directory)
    source = source_for([plan], job.files, with_source=machine.image is None)
    callbacks.sends(source)
    taken = names_in_use() | {job.name for job in live_managed_jobs()} | known_names()
    name = _free_name(machine.name, taken) or cluster_name(profile, taken)
    idle_minutes = idle_minutes_for(machine, results.stores, known)
    run = RentedRun(
        name=name,
        run_id=new_run_id(plan.profile, datetime.now(UTC)),
        profile=profile,
        plan_hash=plan.hash,
        # Whoever comes back may have put jobs of another kind there.
        machine=machine.changed(keep=True) if detach else machine,
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
        raise GateError("nothing was hired: the price was not agreed to")
    check_stores(results.stores, run.run_id, known)
    callbacks.begin(run.run_id)
    place = ManagedPlace() if machine.managed else NewCluster()
    with named_where_left(run.name, callbacks.tell):
        if machine.idle or detach:
            return hire_and_leave(quoted, place, callbacks)
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
