"""`skymark submit`: slot workers that carry out a plan on a cluster that several people share."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Sequence
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
from skymark.cli.tables import print_rows
from skymark.cli.variables import VariableOptions
from skymark.model.errors import UsageError
from skymark.model.plan import Plan
from skymark.suite.registry import suite_named

if TYPE_CHECKING:
    from skymark.cloud.lifecycle.stages import Quoted
    from skymark.cloud.slots import SlotJob

EIGHTH = 0.125


def submit(  # noqa: PLR0913  # its parameters are the options of a command
    options: PlanOptions = DEFAULT_OPTIONS,
    variables: VariableOptions = DEFAULT_VARIABLES,
    *,
    cluster: Annotated[
        str, Parameter(group=MACHINE, help="The machine's name, as `skymark status` shows it.")
    ],
    plan: Annotated[
        Path | None,
        Parameter(
            group=WHAT, help="A file that `skymark plan --output` wrote, in place of options."
        ),
    ] = None,
    gpu_fraction: Annotated[
        float,
        PART,
        Parameter(
            group=MACHINE,
            help="The part of a card that each worker has; groups that need more memory get more.",
        ),
    ] = EIGHTH,
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
        Parameter(group=LIMITS, help="Longest time of each job, such as 6h. [default: none]"),
    ] = None,
    store: Stores = (),
    dry_run: Annotated[
        bool, Parameter(group=WHERE, help="Show the jobs, and submit none.")
    ] = False,
) -> int:
    """Submit a plan to a machine that is there: workers take its groups until none is left.

    Cells of a group share what they load, such as a model. Each worker has a part of a card and
    takes one group after another; no two have the same one, also of several submissions. When one
    is killed, another takes over what it held. What others have measured on the machine already is
    taken from there. Results go to the stores cell by cell, and stay on the machine until it ends.

    Where the machine does not take a job, those of slot workers are taken back; jobs of one group
    stay, and the same command submits the rest.

    Exit status: 0 the jobs are in the queue, 2 bad usage or nothing fits, nothing was queued, 1
    the machine did not take them all.
    """
    from skymark.cloud.lifecycle.group_queue import submit_groups
    from skymark.cloud.lifecycle.slot_jobs import cluster_cards
    from skymark.cloud.lifecycle.slot_jobs import submit as submit_slots
    from skymark.cloud.slots import job_per_group, slot_jobs

    wanted = first_groups(wanted_plan(options, plan), max_jobs)
    sendable(wanted, with_source=True)
    require_data(variables.cache_policy, wanted)
    suite = suite_named(wanted.suite)
    if not suite.shares_machine:
        raise UsageError(
            f"cells of {wanted.suite} need the machine for themselves; queue them with exec"
        )
    needs: dict[str, int | None] = {}
    for one in wanted.runnable:
        known = (needs.get(one.group), suite.device_bytes(one.cell))
        needs[one.group] = max((need for need in known if need is not None), default=None)
    if not needs:
        raise UsageError("the plan has nothing that can be measured; see `skymark plan`")
    cards = cluster_cards(cluster)
    if one_job_per_group:
        jobs = job_per_group(needs, cards, gpu_fraction)
    else:
        jobs = slot_jobs(needs, cards, gpu_fraction, slots)
    kind = None if cards is None else cards.kind
    if cards is not None and cards.bytes_each is None:
        say(f"the memory of an {kind} is not known here: nothing was compared with it")
    _show(jobs, needs, kind, cluster)
    if dry_run:
        return 0
    quoted = _quoted(wanted, cluster, deadline, store, variables)
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


def first_groups(plan: Plan, count: int | None) -> Plan:
    """Return a plan of the first so many groups of another one; None for all of them."""
    if count is None:
        return plan
    taken = list(dict.fromkeys(one.group for one in plan.runnable))[:count]
    cells = tuple(one for one in plan.cells if one.group in taken)
    return plan.model_copy(update={"cells": cells})


def _quoted(
    plan: Plan, cluster: str, deadline: str | None, store: Sequence[str], variables: VariableOptions
) -> Quoted:
    from skymark.cloud.lifecycle.adopting import order_of
    from skymark.cloud.lifecycle.stages import Quoted
    from skymark.cloud.order import seconds_of
    from skymark.cloud.secret_variables import secrets_for
    from skymark.cloud.stores import check_stores
    from skymark.cloud.submission import job_name, new_submission
    from skymark.run.layout import new_run_id

    limit_s = None if deadline is None else seconds_of(deadline)
    run_id = job_name(new_run_id(plan.profile, datetime.now(UTC)))  # names of jobs have it
    order = order_of(cluster, plan.profile).model_copy(
        update={
            "run_id": run_id,
            "plan_hash": plan.hash,
            "stores": tuple(store),
            "deadline_s": limit_s,
            "keep": True,
            "idle": False,
            "variables": variables.variables(),
            "submission": new_submission(),
        }
    )
    given = variables.beside(os.environ)
    check_stores(order.stores, run_id, given)
    secrets = {**secrets_for(plan, order.stores, given), **variables.secrets()}
    return Quoted(order, plan, secrets, limit_s)


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
