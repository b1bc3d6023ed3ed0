"""`skymark submit`: slot workers that carry out a plan on a cluster that several people share."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from skymark.cli.caller import note, say
from skymark.cli.launch import sendable
from skymark.cli.named_data import require_data
from skymark.cli.options import PlanOptions
from skymark.cli.parameters import COUNT, JOB, PART, WHAT, WHERE
from skymark.cli.rented_options import DEFAULT_VARIABLES, LIMITS, MACHINE, Stores
from skymark.cli.run import DEFAULT_OPTIONS, wanted_plan
from skymark.cli.submit_managed import ManagedOptions, submit_managed
from skymark.cli.tables import print_rows
from skymark.cli.variables import VariableOptions
from skymark.execute.partition.split import Balanced
from skymark.execute.profiles import load_profile
from skymark.model.duration_text import seconds_of
from skymark.model.errors import SkymarkError, UsageError
from skymark.model.plan import Plan
from skymark.suite.contract import Suite
from skymark.suite.registry import suite_named

if TYPE_CHECKING:
    from skymark.cloud.lifecycle.stages import Quoted
    from skymark.cloud.order import Order
    from skymark.cloud.slots import SlotJob

EIGHTH = 0.125
ALL = "all"
DEFAULT_HIRING = ManagedOptions()


def submit(  # noqa: PLR0913  # its parameters are the options of a command
    options: PlanOptions = DEFAULT_OPTIONS,
    variables: VariableOptions = DEFAULT_VARIABLES,
    *,
    cluster: Annotated[
        str | None,
        Parameter(group=MACHINE, help="The machine's name, as `skymark status` shows it."),
    ] = None,
    managed: Annotated[
        bool,
        Parameter(
            group=MACHINE,
            help="In place of --cluster: groups are divided between SkyPilot's managed jobs, each "
            "on a machine that is hired for it. Needs --store s3://….",
        ),
    ] = False,
    hiring: ManagedOptions = DEFAULT_HIRING,
    plan: Annotated[
        Path | None,
        Parameter(
            group=WHAT, help="A file that `skymark plan --output` wrote, in place of options."
        ),
    ] = None,
    gpu_fraction: Annotated[
        float | None,
        PART,
        Parameter(
            group=MACHINE,
            help="The part of a card that each worker has; groups that need more memory get more. "
            f"[default: {EIGHTH}]",
        ),
    ] = None,
    slots: Annotated[
        int | None,
        COUNT,
        Parameter(
            group=MACHINE,
            help="Workers in all. [default: as many as fit on the cards; 1 where there are none]",
        ),
    ] = None,
    max_jobs: Annotated[
        int | None, COUNT, Parameter(group=WHAT, help="Only the first so many groups.")
    ] = None,
    one_job_per_group: Annotated[
        bool,
        Parameter(
            group=JOB,
            help="A job for each group in place of workers that take many; again for the rest.",
        ),
    ] = False,
    deadline: Annotated[
        str | None,
        Parameter(
            group=LIMITS,
            help="Longest time of each job, such as 6h. [default: none; with --managed the "
            "profile's]",
        ),
    ] = None,
    store: Stores = (),
    dry_run: Annotated[
        bool,
        Parameter(group=WHERE, help="Show the jobs that would be submitted now, and submit none."),
    ] = False,
) -> int:
    """Submit a plan to a machine that is there, or to several that are hired for it.

    Without names of scenarios and adapters it is all that the profile's suite has. With --cluster,
    workers on that machine take its groups until none is left. Cells of a group
    share what they load, such as a model. Each worker has a part of a card and takes one group
    after another; no two have the same one, also of several submissions. When one is killed,
    another takes over what it held. What others have measured on the machine already is taken from
    there. Results go to the stores cell by cell, and stay on the machine until it ends.

    Where the machine does not take a job, those of slot workers are taken back; jobs of one group
    stay, and the same command submits the rest.

    With --managed, each of a few managed jobs takes some groups on a machine of its own, which ends
    with it. The price is of all of them together. Where not all can begin, the others go on, and
    the same command submits those that are missing.

    Exit status: 0 the jobs are in the queue, 2 bad usage or nothing fits, nothing was queued, 1
    the machine, or SkyPilot, did not take them all, 3 too dear, or not agreed to.
    """
    from skymark.cloud.lifecycle.group_queue import submit_groups
    from skymark.cloud.lifecycle.slot_jobs import cluster_cards
    from skymark.cloud.lifecycle.slot_jobs import submit as submit_slots
    from skymark.cloud.slots import job_per_group, slot_jobs

    of_cluster = {
        "--cluster": cluster is not None,
        "--gpu-fraction": gpu_fraction is not None,
        "--slots": slots is not None,
        "--one-job-per-group": one_job_per_group,
    }
    _require_one_way(of_cluster, hiring, managed=managed)
    named = options if plan is not None else with_all_names(options)
    wanted = first_groups(wanted_plan(named, plan), max_jobs)
    if managed:
        profile = options.profile if plan is None else wanted.profile  # a file, or a name
        return submit_managed(wanted, profile, variables, hiring, deadline, store, dry_run=dry_run)
    assert cluster is not None
    fraction = EIGHTH if gpu_fraction is None else gpu_fraction
    sendable(wanted, with_source=True)
    require_data(variables.cache_policy, wanted)
    suite = suite_named(wanted.suite)
    _require_shareable(wanted, suite)
    needs: dict[str, int | None] = {}
    for one in wanted.runnable:
        known = (needs.get(one.group), suite.device_bytes(one.cell))
        needs[one.group] = max((need for need in known if need is not None), default=None)
    if not needs:
        raise UsageError("the plan has nothing that can be measured; see `skymark plan`")
    cards = cluster_cards(cluster)
    if one_job_per_group:
        jobs = job_per_group(needs, cards, fraction)
    else:
        jobs = slot_jobs(needs, cards, fraction, slots)
    kind = None if cards is None else cards.kind
    if cards is not None and cards.bytes_each is None:
        say(f"the memory of an {kind} is not known here: nothing was compared with it")
    order = _order(wanted, cluster, deadline, store, variables)
    if dry_run and not one_job_per_group:
        _tell_of_queue(cluster)
    elif dry_run:
        jobs = _without_those_queued(jobs, order, wanted)
        needs = {
            name: need for name, need in needs.items() if any(name in one.groups for one in jobs)
        }
    _show(jobs, needs, kind, cluster)
    if dry_run:
        return 0
    quoted = _quoted(order, wanted, variables)
    run_id, queued = (submit_groups if one_job_per_group else submit_slots)(quoted, jobs, say)
    if not queued:
        say("no job was submitted")
        return 0
    numbers = " ".join(str(one.number) for one in queued)
    say(
        f"{run_id}: job{'s' * (len(queued) > 1)} {numbers} of {cluster}\n"
        f"  watch:   skymark queue {cluster} --watch; skymark logs {cluster} {queued[0].number}\n"
        f"  fetch:   skymark collect {cluster} {run_id}\n"
        f"  end:     skymark cancel {cluster} {numbers}"
    )
    for address in quoted.order.stores:
        note(f"  stored:  {shlex.quote(f'{address}/{run_id}')}")
    return 0


def _require_one_way(
    of_cluster: Mapping[str, bool], hiring: ManagedOptions, *, managed: bool
) -> None:
    """Refuse options of the other way to submit, and neither way.

    Args:
        of_cluster: whether each option of a machine that is there was given.
        hiring: options of machines that are hired.
        managed: whether they are hired.

    Raises:
        UsageError: it is so.
    """
    given = [option for option, is_given in of_cluster.items() if is_given]
    if managed and given:
        raise UsageError(
            f"{' and '.join(given)} cannot be given beside --managed, which hires a machine for "
            "each of its jobs; leave one of them out"
        )
    if not managed and hiring.split is not None:
        raise UsageError(
            f"--split {hiring.split}: workers on one machine take the next group whenever they are "
            "free, so nothing is divided beforehand; leave it out, or add --managed, whose jobs "
            "have machines of their own"
        )
    if not managed and (alone := hiring.given()):
        raise UsageError(
            f"{' and '.join(alone)} cannot be given without --managed, which hires machines; add "
            "that, or leave it out"
        )
    if not managed and not of_cluster["--cluster"]:
        raise UsageError(
            "nothing says where: give --cluster NAME (`skymark status` shows names), or --managed "
            "with --store s3://BUCKET/PREFIX"
        )


def with_all_names(options: PlanOptions) -> PlanOptions:
    """Return the options of all that a suite has, where they name nothing of it.

    What was measured already is left out later, by the machine or by the jobs that are there. A
    suite whose cells disturb one another keeps to the profile, which fits into its time.
    """
    suite = suite_named(load_profile(options.profile).suite)
    if options.scenarios or options.adapters or not suite.shares_machine:
        return options
    say(f"nothing of {suite.name} was named, so all of it that is not measured yet is taken")
    return dataclasses.replace(options, scenarios=(ALL,), adapters=(ALL,))


def first_groups(plan: Plan, count: int | None) -> Plan:
    """Return a plan of the first so many groups of another one; None for all of them."""
    if count is None:
        return plan
    taken = list(dict.fromkeys(one.group for one in plan.runnable))[:count]
    cells = tuple(one for one in plan.cells if one.group in taken)
    return plan.model_copy(update={"cells": cells})


def _without_those_queued(jobs: Sequence[SlotJob], order: Order, plan: Plan) -> list[SlotJob]:
    """Return the jobs of groups that the cluster's queue has no job for; all where it is silent."""
    from skymark.cloud.group_jobs import submission_key
    from skymark.cloud.lifecycle.group_queue import outstanding_groups

    try:
        rest = outstanding_groups(order, submission_key(plan, order), jobs, say)
    except SkymarkError as error:
        say(f"groups that have a job already are shown too, for the queue cannot be read: {error}")
        return list(jobs)
    return [job for job in jobs if job.groups[0] in rest.groups]


def _tell_of_queue(cluster: str) -> None:
    """Say how many jobs a cluster's queue has, whose workers may hold groups of a plan."""
    from skymark.cloud.sky.jobs import queued_jobs

    try:
        count = len(queued_jobs(cluster, skip_finished=True))
    except SkymarkError as error:
        say(f"what its queue has is not known: {error}")
        return
    if count:
        say(
            f"jobs that wait or run on {cluster}: {count}. The queue does not tell which groups "
            "workers hold; no group that another holds is taken a second time"
        )


def _require_shareable(plan: Plan, suite: Suite) -> None:
    """Refuse a plan whose cells cannot be measured by several jobs on one machine."""
    if not suite.shares_machine:
        raise UsageError(
            f"cells of {plan.suite} need the machine for themselves; queue them with exec"
        )
    if plan.allotment is not None:
        raise UsageError(
            "--time is spent on cells that are compared with one another, and each job has only "
            "some of those; leave it out, or queue the plan with exec"
        )


def _order(
    plan: Plan, cluster: str, deadline: str | None, store: Sequence[str], variables: VariableOptions
) -> Order:
    from skymark.cloud.lifecycle.adopting import order_of
    from skymark.cloud.submission import job_name, new_submission
    from skymark.run.layout import new_run_id

    run_id = job_name(new_run_id(plan.profile, datetime.now(UTC)))  # names of jobs have it
    return order_of(cluster, plan.profile).model_copy(
        update={
            "run_id": run_id,
            "plan_hash": plan.hash,
            "stores": tuple(store),
            "deadline_s": None if deadline is None else seconds_of(deadline),
            "keep": True,
            "idle": False,
            "split": Balanced.kind,
            "variables": variables.variables(),
            "submission": new_submission(),
        }
    )


def _quoted(order: Order, plan: Plan, variables: VariableOptions) -> Quoted:
    """Return a run with its secrets, whose stores were tried; the machine is paid for already."""
    from skymark.cloud.lifecycle.stages import Quoted
    from skymark.cloud.secret_variables import secrets_for
    from skymark.cloud.stores import check_stores

    given = variables.beside(os.environ)
    check_stores(order.stores, order.run_id, given)
    secrets = {**secrets_for(plan, order.stores, given), **variables.secrets()}
    return Quoted(order, plan, secrets, order.deadline_s)


def _show(
    jobs: Sequence[SlotJob], needs: dict[str, int | None], kind: str | None, cluster: str
) -> None:
    """Print the jobs, those that are alike in one line."""
    alike = Counter(jobs)
    rows = []
    for job, count in alike.items():
        of_card = "-" if kind is None else f"{kind}:{job.cards:g}"
        part = "-" if kind is None else f"{job.fraction:g}"
        groups = str(len(job.groups) or len(needs))
        rows.append((str(count), of_card, str(job.slots), part, groups))
    print_rows(("jobs", "of the cards", "workers each", "card each", "groups to take from"), rows)
    workers = sum(job.slots for job in jobs)
    note(f"{len(needs)} groups for {workers} workers in {len(jobs)} jobs on {cluster}")
