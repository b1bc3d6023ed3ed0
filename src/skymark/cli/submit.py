"""`skymark submit`: slot workers that carry out a plan on a cluster that several people share."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import Parameter

from skymark.cli.caller import note, say
from skymark.cli.cost import print_quote
from skymark.cli.options import PlanOptions
from skymark.cli.parameters import COUNT, DEFAULT_RESULTS, JOB, PART, WHAT, WHERE
from skymark.cli.rented_options import (
    DEFAULT_VARIABLES,
    LIMITS,
    MACHINE,
    Stores,
    Sync,
    VariableOptions,
    require_data,
    source_for,
)
from skymark.cli.run import DEFAULT_OPTIONS, wanted_plan
from skymark.cli.submit_managed import ManagedOptions, submit_managed
from skymark.cli.tables import print_rows
from skymark.execute.partition.split import Balanced
from skymark.execute.planner import load_profile
from skymark.model.duration import seconds_of
from skymark.model.errors import SkymarkError, UsageError
from skymark.model.plan import Plan
from skymark.suite.contract import Suite
from skymark.suite.registry import suite_named

if TYPE_CHECKING:
    from skymark.cloud.cost.limits import Limits
    from skymark.cloud.cost.quote import Offer
    from skymark.cloud.lifecycle.stages import Quoted
    from skymark.cloud.order import Order
    from skymark.cloud.shared_jobs import Cards, SlotJob

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
            "[default: an eighth, or more where there are few groups]",
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
    sync: Sync = (),
    dry_run: Annotated[
        bool,
        Parameter(
            group=WHERE,
            help="Show the jobs and their price, and submit none. Without a machine: on the "
            "cheapest of --profile.",
        ),
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
    from skymark.cloud.lifecycle.quoting import ceiling_there, quote_there, slots_of
    from skymark.cloud.lifecycle.slot_queue import submit as submit_slots
    from skymark.cloud.lifecycle.slot_queue import submit_groups
    from skymark.cloud.shared_jobs import group_bytes, job_per_group, slot_jobs
    from skymark.rundir.history import read_history

    of_cluster = {
        "--cluster": cluster is not None,
        "--gpu-fraction": gpu_fraction is not None,
        "--slots": slots is not None,
        "--one-job-per-group": one_job_per_group,
    }
    _require_one_way(of_cluster, hiring, managed=managed, dry_run=dry_run)
    if plan is None and cluster is not None:
        options = for_machine(options, cluster)
    named = options if plan is not None else with_all_names(options)
    wanted = first_groups(wanted_plan(named, plan), max_jobs)
    profile = options.profile if plan is None else wanted.profile  # a file, or a name
    source = source_for([wanted], sync)
    if managed:
        return submit_managed(
            wanted, profile, variables, hiring, deadline, store, source, dry_run=dry_run
        )
    require_data(variables.cache_policy, wanted)
    _require_shareable(wanted, suite_named(wanted.suite))
    needs = group_bytes(wanted)
    if not needs:
        raise UsageError("the plan has nothing that can be measured; see `skymark plan`")
    place = _place(cluster, wanted, profile, hiring.max_cost, dry_run=dry_run)
    cards = place.cards
    if one_job_per_group:
        jobs = job_per_group(needs, cards, gpu_fraction)
    else:
        jobs = slot_jobs(needs, cards, gpu_fraction, slots)
    kind = None if cards is None else cards.kind
    _say_of_cards(cards, wanted)
    order = _order(place, wanted, profile, store, variables, source)
    limits = _limits_of(profile)
    order = order.model_copy(
        update={
            "deadline_s": None if deadline is None else seconds_of(deadline),
            "max_cost_usd": ceiling_there(order, hiring.max_cost, limits),
        }
    )
    if dry_run and place.is_there and not one_job_per_group:
        _tell_of_queue(order.cluster)
    elif dry_run and place.is_there:
        jobs = _without_those_queued(jobs, order, wanted)
        names = {name for one in jobs for name in one.groups}
        needs = {name: need for name, need in needs.items() if name in names}
    _show(jobs, needs, kind, order.cluster)
    cells = tuple(one for one in wanted.cells if one.group in needs)
    left = wanted.model_copy(update={"cells": cells})
    quoted = quote_there(
        order, left, read_history(DEFAULT_RESULTS, left), place.offer, slots_of(jobs, cards)
    )
    if quoted.quote is None:
        say(f"the price of {order.cluster} is not known: no cost is counted, and none is limited")
    else:
        print_quote(quoted.quote, [_said_of_limit(order)])
    if dry_run:
        return 0
    quoted = _with_secrets(dataclasses.replace(quoted, plan=wanted), variables)
    run_id, queued = (submit_groups if one_job_per_group else submit_slots)(quoted, jobs, say)
    _say_what_is_queued(quoted.order, run_id, [one.number for one in queued])
    return 0


def _say_what_is_queued(order: Order, run_id: str, numbers: Sequence[int]) -> None:
    """Name the jobs in a cluster's queue, with the commands that follow and end them."""
    if not numbers:
        say("no job was submitted")
        return
    cluster, jobs = order.cluster, " ".join(map(str, numbers))
    say(
        f"{run_id}: job{'s' * (len(numbers) > 1)} {jobs} of {cluster}\n"
        f"  watch:   skymark queue {cluster} --watch; skymark logs {cluster} {numbers[0]}\n"
        f"  fetch:   skymark collect {cluster} {run_id}\n"
        f"  end:     skymark cancel {cluster} {jobs}"
    )
    for address in order.stores:
        note(f"  stored:  {shlex.quote(f'{address}/{run_id}')}")


def _require_one_way(
    of_cluster: Mapping[str, bool], hiring: ManagedOptions, *, managed: bool, dry_run: bool
) -> None:
    """Refuse options of the other way to submit, and neither way.

    Args:
        of_cluster: whether each option of a machine that is there was given.
        hiring: options of machines that are hired.
        managed: whether they are hired.
        dry_run: whether nothing is submitted, so that no machine need be there.

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
    if not managed and not dry_run and not of_cluster["--cluster"]:
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
    from skymark.cloud.lifecycle.slot_queue import outstanding_groups
    from skymark.cloud.shared_jobs import submission_key

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


def for_machine(options: PlanOptions, cluster: str) -> PlanOptions:
    """Return the options with the profile that a machine was hired for, where none was given."""
    from skymark.cloud.known_machines import recall

    if options.profile != type(options)().profile:
        return options
    with suppress(UsageError):  # hired elsewhere, or by a profile that is no more
        made_for = recall(cluster).profile
        if load_profile(made_for).suite == load_profile(options.profile).suite:
            if made_for != options.profile:
                say(f"--profile {made_for}, for which {cluster} was hired")
            return dataclasses.replace(options, profile=made_for)
    return options


class Place(NamedTuple):
    """A machine that workers are for."""

    cluster: str
    offer: Offer | None
    """None where its price is not known."""
    cards: Cards | None
    is_there: bool


def _place(
    cluster: str | None, plan: Plan, profile: str, max_cost_usd: float | None, *, dry_run: bool
) -> Place:
    """Return a machine that is there, or for a dry run the cheapest of a profile.

    Raises:
        UsageError: there is none, or no price is known.
        CloudError: SkyPilot does not answer.
    """
    from skymark.cli.cost import MachineOptions, cheapest_offer
    from skymark.cloud.lifecycle.quoting import cards_of_offer, machine_there
    from skymark.cloud.lifecycle.slot_queue import cluster_cards

    why = "no --cluster is given"
    if cluster is not None:
        try:
            offer = machine_there(cluster, max_cost_usd)
            return Place(cluster, offer, cluster_cards(cluster), is_there=True)
        except SkymarkError as error:
            if not dry_run:
                raise
            why = str(error)
    say(f"{why}; the figures are of the cheapest machine of {profile}")
    offer = cheapest_offer(plan, profile, MachineOptions())
    return Place(cluster or "NAME", offer, cards_of_offer(offer), is_there=False)


def _order(
    place: Place,
    plan: Plan,
    profile: str,
    store: Sequence[str],
    variables: VariableOptions,
    source: Path | None,
) -> Order:
    from skymark.cloud.lifecycle.kept_machine import order_of
    from skymark.cloud.order import KEPT_IDLE_MINUTES, Order
    from skymark.cloud.source import job_name, new_submission
    from skymark.rundir.layout import new_run_id

    run_id = job_name(new_run_id(plan.profile, datetime.now(UTC)))  # names of jobs have it
    if place.is_there:
        known = order_of(place.cluster, plan.profile)
    else:
        known = Order(
            profile=profile,
            plan_hash=plan.hash,
            run_id=run_id,
            cluster=place.cluster,
            idle_minutes=KEPT_IDLE_MINUTES,
        )
    return known.model_copy(
        update={
            "run_id": run_id,
            "plan_hash": plan.hash,
            "stores": tuple(store),
            "keep": True,
            "idle": False,
            "split": Balanced.kind,
            "variables": variables.variables(),
            "submission": new_submission(),
            "source": source,
        }
    )


def _say_of_cards(cards: Cards | None, plan: Plan) -> None:
    """Say what is not known of a machine's cards, and that none of them works."""
    if cards is not None and cards.bytes_each is None:
        say(f"the memory of an {cards.kind} is not known here: nothing was compared with it")
    if cards is not None and plan.platform == "cpu":
        say(
            f"none of {cards.count} {cards.kind} works: the profile {plan.profile} is for a CPU; "
            "give --profile NAME for a GPU"
        )


def _limits_of(profile: str) -> Limits:
    """Return the limits of a profile; none where a plan's file names one that is not here."""
    from skymark.cloud.cost.limits import Limits, limits_for

    with suppress(UsageError):
        return limits_for(load_profile(profile))
    return Limits(deadline_s=None, max_cost_usd=None)


def _said_of_limit(order: Order) -> str:
    """Say what ends the jobs on the machine itself, whatever becomes of this command."""
    from skymark.cloud.cost.limits import as_given

    if order.max_cost_usd is None:
        return "No ceiling: --max-cost USD ends the jobs on the machine itself when it is used up."
    return (
        f"The machine itself ends these jobs when {as_given(order.max_cost_usd)} USD are used up, "
        "whatever becomes of this terminal."
    )


def _with_secrets(quoted: Quoted, variables: VariableOptions) -> Quoted:
    """Return a run with its secrets, whose stores were tried."""
    from skymark.cloud.stores import check_stores, secrets_for

    given, order = variables.beside(os.environ), quoted.order
    check_stores(order.stores, order.run_id, given)
    secrets = {**secrets_for(quoted.plan, order.stores, given), **variables.secrets()}
    return dataclasses.replace(quoted, secrets=secrets)


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
