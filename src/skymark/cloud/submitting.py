"""Submit a plan: to workers on a machine that is there, or to managed jobs that share it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from skymark.cloud.cost.quote import Offer
from skymark.cloud.known_machines import RentedMachines, rented, turn_of
from skymark.cloud.lifecycle.managed import part_runs, submit_parts
from skymark.cloud.lifecycle.queued_jobs import (
    Submitted,
    cluster_cards,
    outstanding_jobs,
    submit_groups,
    submit_slots,
)
from skymark.cloud.lifecycle.quoting import (
    cards_of_offer,
    cheapest_offer,
    machine_there,
    ordered_machines,
    quote_run,
    quote_there,
    slots_of,
)
from skymark.cloud.lifecycle.stages import SILENT, Callbacks, Quoted
from skymark.cloud.machines import run_of_machine
from skymark.cloud.rented_run import (
    KEPT_IDLE_MINUTES,
    RentedRun,
    check_stores,
    idle_minutes_for,
    limits_of,
    limits_there,
    require_time_before,
)
from skymark.cloud.sky.client import leaves_no_server
from skymark.cloud.sky.clusters import handle_of
from skymark.cloud.sky.jobs import check_controller, known_managed_jobs, queued_jobs
from skymark.cloud.source import source_for
from skymark.cloud.submissions import (
    job_name,
    new_submission,
    outstanding_parts,
    submission_key,
)
from skymark.execute.partition.shard import (
    Item,
    WorkerPart,
    items_of,
    named_keys,
    parts_of,
    worker_parts,
)
from skymark.execute.partition.split import Split, read_split
from skymark.execute.planner import load_profile, planned, require_data
from skymark.execute.slots import (
    Cards,
    SlotJob,
    group_bytes,
    job_per_group,
    require_shareable,
    slot_jobs,
)
from skymark.model.errors import GateError, NothingToMeasureError, SkymarkError, UsageError
from skymark.model.plan import Plan
from skymark.model.requests import Job, Limits, Machine, Results, Work
from skymark.rundir.history import read_history
from skymark.rundir.layout import new_run_id
from skymark.suite.registry import suite_named

ALL = "all"
"""The name of all scenarios, and of all adapters."""
JOBS = 4
"""Managed jobs that share a plan, unless told otherwise."""
QUEUE = "skymark-managed-jobs"
"""Under this name several commands here wait for one another."""


@dataclass(frozen=True)
class QuotedSlots(Quoted):
    """A submission to a machine that is there, with its price and the jobs of its workers."""

    jobs: tuple[SlotJob, ...] = ()
    groups: int = 0
    """That the workers take."""
    cards: Cards | None = None
    """Of the machine; None where it has none."""


@dataclass(frozen=True)
class QuotedParts(Quoted):
    """A submission to managed jobs, with its price and the part of each job."""

    parts: tuple[WorkerPart, ...] = ()
    jobs: int = 0
    """Number of jobs that share the plan, including existing jobs."""


@dataclass(frozen=True)
class SubmittedParts:
    """Managed jobs that are on their way."""

    run: RentedRun
    going: tuple[Quoted, ...] = ()
    wanted: int = 0
    problems: tuple[str, ...] = ()
    """Why some were not begun, or were ended."""
    interrupted: bool = False

    @property
    def machines(self) -> tuple[RentedMachines, ...]:
        """The machines of the jobs, rented or planned."""
        return tuple(rented(job.name) or ordered_machines(job) for job in self.going)


@leaves_no_server
def submit(  # noqa: PLR0913  # as many as the ways to divide a plan
    work: Work | Plan,
    name: str | None,
    limits: Limits = Limits(),
    results: Results = Results(),
    job: Job = Job(),
    callbacks: Callbacks = SILENT,
    *,
    groups: int | None = None,
    gpu_fraction: float | None = None,
    slots: int | None = None,
    one_job_per_group: bool = False,
    dry_run: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Submitted | QuotedSlots:
    """Put workers that take one group of a plan after another into a machine's queue.

    Args:
        work: the cells; without names, all cells of a suite that shares its machine.
        name: the machine's. None for the profile's cheapest machine, in a dry run.
        limits: of each job. By default there is no deadline, and the higher ceiling counts, of
            the machine and the profile.
        results: its stores get each cell as it is measured.
        job: variables, secrets and files.
        callbacks: get prices and progress.
        groups: number of first groups to take; None for all.
        gpu_fraction: share of a GPU for each worker; None for an eighth or more.
        slots: total number of workers; None for as many as fit.
        one_job_per_group: one job per group instead of workers that take many groups.
        dry_run: price it, and submit nothing.
        environment: has the keys of stores.

    Raises:
        UsageError: nothing was queued: the machine does not exist, or nothing fits.
        GateError: nothing was queued: the expected cost exceeds the ceiling.
        CloudError: the machine did not take all jobs.
    """
    plan, profile = plan_to_submit(work, groups, callbacks.tell)
    source = source_for([plan], job.files)
    callbacks.sends(source)
    require_data(job.cache_policy, plan)
    require_shareable(plan, "queue them with exec")
    needs = group_bytes(plan)
    if not needs:
        raise NothingToMeasureError
    profile_here = None
    with suppress(UsageError):  # a plan's file may name one that is not here
        profile_here = load_profile(profile)
    known, offer, cards, there = _machine(name, plan, profile, limits, callbacks, dry_run=dry_run)
    run = known.changed(
        run_id=job_name(new_run_id(plan.profile, datetime.now(UTC))),  # names of jobs have it
        plan_hash=plan.hash,
        machine=known.machine.changed(keep=True, idle=False),
        limits=limits_there(known, limits, profile_here).changed(deadline_s=limits.deadline_s),
        job=job,
        stores=results.stores,
        submission=new_submission(),
        source=source.directory,
    )
    if one_job_per_group:
        jobs = job_per_group(needs, cards, gpu_fraction)
    else:
        jobs = slot_jobs(needs, cards, gpu_fraction, slots)
    if dry_run and there and not one_job_per_group:
        _tell_of_queue(run.name, callbacks)
    elif dry_run and there:
        jobs = _without_those_queued(jobs, run, plan, callbacks)
        names = {group for slot_job in jobs for group in slot_job.groups}
        needs = {group: need for group, need in needs.items() if group in names}
    left = plan.model_copy(
        update={"cells": tuple(planned for planned in plan.cells if planned.group in needs)}
    )
    variables = {**environment, **job.variables, **job.secrets}
    history = read_history(results.directory, left)
    quoted = quote_there(run, left, history, offer, variables, slots_of(jobs, cards))
    priced = QuotedSlots(
        **{**vars(quoted), "plan": plan}, jobs=tuple(jobs), groups=len(needs), cards=cards
    )
    callbacks.show(priced)
    if dry_run:
        return priced
    check_stores(run.stores, run.run_id, variables)
    return (submit_groups if one_job_per_group else submit_slots)(priced, jobs, callbacks.tell)


@leaves_no_server
def submit_managed(
    work: Work | Plan,
    machine: Machine,
    limits: Limits = Limits(),
    results: Results = Results(),
    job: Job = Job(),
    callbacks: Callbacks | None = None,
    *,
    groups: int | None = None,
    jobs: int | None = None,
    dry_run: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> SubmittedParts | QuotedParts | None:
    """Divide a plan between managed jobs, each on a machine of its own, and detach.

    Args:
        work: the cells; without names, all cells of a suite that shares its machine.
        machine: the managed machine of each job.
        limits: of each job in time, of all together in cost; None for the profile's.
        results: one of its stores outlives the machines.
        job: the split of the plan between the jobs, variables, secrets and files.
        callbacks: get the progress, and answer questions about the price. None: silent; a ceiling
            in `limits` is consent to the price.
        groups: number of first groups to take; None for all.
        jobs: number of jobs; None for 4, at most one per group.
        dry_run: price it, and submit nothing.
        environment: has the keys of stores.

    Returns:
        None if every part has a job already.

    Raises:
        UsageError: nothing was rented: no store outlives the machines, or an option is wrong.
        GateError: together they may cost more than the ceiling, or the user declined.
    """
    callbacks = callbacks or Callbacks(agrees=limits.max_cost_usd is not None)
    plan, profile = plan_to_submit(work, groups, callbacks.tell)
    source = source_for([plan], job.files)
    callbacks.sends(source)
    plan = measurable(plan, callbacks.tell)
    items = items_of(plan.cells)
    split = split_of_jobs(job.split, jobs, items)
    count = len(split.places)
    variables = {**environment, **job.variables, **job.secrets}
    run = RentedRun(
        name=QUEUE,
        run_id=job_name(new_run_id(plan.profile, datetime.now(UTC))),  # names of jobs have it
        profile=profile,
        plan_hash=plan.hash,
        machine=machine,
        job=job.changed(split=job.split or "longest"),
        stores=results.stores,
        idle_minutes=idle_minutes_for(machine, results.stores, variables),
        source=source.directory,
        parts=count,
    )
    key = submission_key(run, plan)  # without limits: with others the same run goes on
    check_controller()
    with nullcontext() if dry_run else turn_of(QUEUE, callbacks.tell):
        rest = outstanding_parts(count, key, known_managed_jobs())
        if rest.run_id is not None:
            there = count - len(rest.attempts)
            callbacks.tell(f"{there} of {count} jobs of {rest.run_id} wait, run or are done")
        if not rest.attempts:
            return None
        whole = limits_of(load_profile(profile), limits, len(rest.attempts))
        require_time_before(plan, whole.deadline_s)
        run = run.changed(run_id=rest.run_id or run.run_id, limits=whole)
        quoted = quote_run(run, plan, results.directory, variables, tuple(rest.attempts))
        shares = worker_parts(split, items)
        priced = QuotedParts(
            **vars(quoted), parts=tuple(shares[number] for number in rest.attempts), jobs=count
        )
        callbacks.show(priced)
        if dry_run:
            return priced
        if not callbacks.agree(priced):
            raise GateError("nothing was rented: the price was not agreed to")
        check_stores(run.stores, run.run_id, variables)
        callbacks.begin(run.run_id)
        return _submitted(quoted, part_runs(quoted, key, rest.attempts), callbacks)


def plan_to_submit(
    work: Work | Plan, groups: int | None, tell: Callable[[str], None]
) -> tuple[Plan, str]:
    """Return the plan of work, or of its first groups, and its profile.

    The machine or the existing jobs skip measured cells later. A suite whose cells disturb each
    other keeps to the profile, which fits into its time.
    """
    if isinstance(work, Work) and not (work.scenarios or work.adapters):
        suite = suite_named(load_profile(work.profile).suite)
        work, _ = work.resolved(suite.name)
        if suite.shares_machine and not (work.scenarios or work.adapters):
            tell(f"no {suite.name} work is named, so skymark takes all unmeasured cells")
            work = work.changed(scenarios=(ALL,), adapters=(ALL,))
    plan, profile = planned(work)
    if groups is not None:
        taken = list(dict.fromkeys(cell.group for cell in plan.runnable))[:groups]
        plan = plan.changed(cells=tuple(cell for cell in plan.cells if cell.group in taken))
    return plan, profile


def _submitted(whole: Quoted, parts: Sequence[Quoted], callbacks: Callbacks) -> SubmittedParts:
    going: list[Quoted] = []
    problems: Sequence[str] = ()
    interrupted = False
    try:
        problems = submit_parts(parts, callbacks, going)
    except KeyboardInterrupt:
        interrupted = True
    return SubmittedParts(whole.run, tuple(going), len(parts), tuple(problems), interrupted)


def split_of_jobs(text: str | None, jobs: int | None, items: Sequence[Item]) -> Split:
    """Return the split of groups between managed jobs, none of which is without a group.

    Args:
        text: of ``--split``; None for the longest groups first.
        jobs: how many; None for `JOBS`, or as many as there are groups.
        items: the groups.

    Raises:
        UsageError: the split cannot be read, has another number of jobs, or leaves one without a
            group.
    """
    text = text or "longest"
    split = read_split(text, min(jobs or JOBS, len(items)))
    count = len(split.places)
    if jobs is not None and ":" in text and count != jobs:
        raise UsageError(
            f"--split {split.text} has {count} jobs, and --jobs {jobs} others; leave out --jobs"
        )
    if idle := [number for number, part in enumerate(parts_of(split, items)) if not part.items]:
        raise UsageError(
            f"--split {split.text} of {len(items)} groups leaves nothing for job {idle[0] + 1} of "
            f"{count}, whose machine would be paid for; give fewer jobs, or another split"
        )
    return split


def measurable(plan: Plan, tell: Callable[[str], None]) -> Plan:
    """Return the groups of a plan in which a cell can be measured.

    No machine is rented for other groups; a message lists them.

    Raises:
        UsageError: no cell can be measured.
    """
    keys = {planned.shard_key for planned in plan.runnable}
    left = dict.fromkeys(cell.shard_key for cell in plan.cells if cell.shard_key not in keys)
    if not keys:
        raise NothingToMeasureError
    if not left:
        return plan
    tell(f"left out, for nothing of it can be measured: {named_keys(list(left))}")
    return plan.model_copy(
        update={"cells": tuple(cell for cell in plan.cells if cell.shard_key in keys)}
    )


def _machine(
    name: str | None,
    plan: Plan,
    profile: str,
    limits: Limits,
    callbacks: Callbacks,
    *,
    dry_run: bool,
) -> tuple[RentedRun, Offer | None, Cards | None, bool]:
    """Return the facts of a machine: run, price, GPUs, and whether it exists.

    In a dry run, the profile's cheapest machine replaces a missing machine.

    Raises:
        UsageError: the machine does not exist, or no price is known.
        CloudError: SkyPilot does not answer.
    """
    why = "no --cluster is given"
    if name is not None:
        try:
            handle = handle_of(name)
            offer = machine_there(name, handle, limits.max_cost_usd)
            cards = cluster_cards(name, handle)
            return run_of_machine(name, plan.profile), offer, cards, True
        except SkymarkError as error:
            if not dry_run:
                raise
            why = str(error)
    callbacks.tell(f"{why}; the figures are of the cheapest machine of {profile}")
    cheapest = cheapest_offer(profile, Machine(), callbacks.tell)
    absent = RentedRun(
        name=name or "NAME",
        run_id="",
        profile=profile,
        plan_hash=plan.hash,
        machine=Machine(),
        idle_minutes=KEPT_IDLE_MINUTES,
    )
    return absent, cheapest, cards_of_offer(cheapest), False


def _without_those_queued(
    jobs: Sequence[SlotJob], run: RentedRun, plan: Plan, callbacks: Callbacks
) -> list[SlotJob]:
    """Return the jobs of groups that the cluster's queue has no job for; all where it is silent."""
    try:
        rest = outstanding_jobs(run, submission_key(run, plan), jobs, callbacks.tell)
    except SkymarkError as error:
        callbacks.tell(
            f"groups that have a job already are shown too, for the queue cannot be read: {error}"
        )
        return list(jobs)
    return [job for job in jobs if job.groups[0] in rest.groups]


def _tell_of_queue(name: str, callbacks: Callbacks) -> None:
    """Report the number of jobs in a cluster's queue, whose workers may hold groups of a plan."""
    try:
        count = len(queued_jobs(name, skip_finished=True))
    except SkymarkError as error:
        callbacks.tell(f"the jobs in its queue are unknown: {error}")
        return
    if count:
        callbacks.tell(
            f"jobs that wait or run on {name}: {count}. The queue does not tell which groups "
            "workers hold; no group that another holds is taken a second time"
        )
