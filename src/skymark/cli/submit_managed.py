"""`skymark submit --managed`: managed jobs that share a plan, each on a machine of its own."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from skymark.cli.caller import end_when_told, note, say
from skymark.cli.console import plain_stream
from skymark.cli.cost import print_quote
from skymark.cli.launch import agree
from skymark.cli.parameters import COUNT, DEFAULT_RESULTS, USD
from skymark.cli.rented_options import LIMITS, MACHINE, VariableOptions
from skymark.cli.splitting import print_part_rows
from skymark.execute.partition.explain import named_keys, worker_parts
from skymark.execute.partition.shard import Item, items_of, parts_of
from skymark.execute.partition.split import Longest, Split, read_split
from skymark.execute.planner import load_profile
from skymark.model.duration import seconds_of
from skymark.model.errors import UsageError
from skymark.model.plan import Plan

if TYPE_CHECKING:
    from skymark.cloud.lifecycle.stages import Quoted
    from skymark.cloud.order import Order

JOBS = 4
QUEUE = "skymark-managed-jobs"
"""Under this name several commands here wait for one another."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ManagedOptions:
    """Options of machines that are hired for managed jobs."""

    jobs: Annotated[
        int | None,
        COUNT,
        Parameter(
            group=MACHINE,
            help="With --managed: jobs that divide the groups, each on a machine of its own; no "
            f"more than there are groups. [default: {JOBS}]",
        ),
    ] = None
    split: Annotated[
        str | None,
        Parameter(
            group=MACHINE,
            help="With --managed: how the jobs share the groups, as `skymark run --split` has it: "
            "longest, balanced, even … [default: longest]",
        ),
    ] = None
    infra: Annotated[
        str | None,
        Parameter(
            group=MACHINE,
            help="With --managed: only there, such as lambda or gcp/us-west1. [default: cheapest]",
        ),
    ] = None
    spot: Annotated[bool, Parameter(group=MACHINE, help="With --managed: only spot machines.")] = (
        False
    )
    gpus: Annotated[
        str | None,
        Parameter(group=MACHINE, help="With --managed: of each machine, such as A100-80GB:1."),
    ] = None
    machine: Annotated[
        Path | None,
        Parameter(
            group=MACHINE, help="With --managed: a SkyPilot YAML in place of the profile's machine."
        ),
    ] = None
    boot_timeout: Annotated[
        str | None,
        Parameter(
            group=MACHINE,
            help="With --managed: longest time until a job's machine is up. [default: 20m]",
        ),
    ] = None
    max_cost: Annotated[
        float | None,
        USD,
        Parameter(
            group=LIMITS,
            help="USD for all jobs together. With --managed what may cost more is refused with "
            "exit status 3; on a machine that is there, what is expected to, and the machine ends "
            "the jobs when it is used up. [default: the profile's, for each machine]",
        ),
    ] = None
    yes: Annotated[
        bool,
        Parameter(
            name=("--yes", "-y"), group=LIMITS, help="With --managed: do not ask about the price."
        ),
    ] = False

    def given(self) -> list[str]:
        """Return the names of those that were given, and mean nothing without --managed."""
        return [
            f"--{one.name.replace('_', '-')}"
            for one in dataclasses.fields(self)
            if one.name != "max_cost" and getattr(self, one.name) != one.default
        ]


def submit_managed(
    plan: Plan,
    profile: str,
    variables: VariableOptions,
    hiring: ManagedOptions,
    deadline: str | None,
    store: Sequence[str],
    source: Path | None,
    *,
    dry_run: bool,
) -> int:
    """Divide a plan between managed jobs, and leave these to themselves; returns the exit status.

    Raises:
        UsageError: nothing was hired: no store outlives the machines, or an option is wrong.
        GateError: they may cost more than the ceiling together, or that was not agreed to.
    """
    from skymark.cloud.cost.limits import require_time_before
    from skymark.cloud.known_machines import turn_of
    from skymark.cloud.shared_jobs import outstanding_parts, submission_key
    from skymark.cloud.sky.managed_jobs import check_controller, known_managed_jobs

    plan = measurable(plan)
    items = items_of(plan.cells)
    split = split_of_jobs(hiring, items)
    jobs = len(split.places)
    parts = worker_parts(split, items)
    order = _order(plan, profile, variables, hiring, store).model_copy(
        update={"parts": jobs, "split": hiring.split or Longest.kind, "source": source}
    )
    key = submission_key(plan, order)  # without limits: with others the same run goes on
    check_controller()
    with nullcontext() if dry_run else turn_of(QUEUE, say):
        rest = outstanding_parts(jobs, key, known_managed_jobs())
        if rest.run_id is not None:
            there = jobs - len(rest.attempts)
            say(f"{there} of {jobs} jobs of {rest.run_id} wait, run or are done")
            order = order.model_copy(update={"run_id": rest.run_id})
        if not rest.attempts:
            say("no job was submitted")
            return 0
        order = _limited(order, hiring, deadline, len(rest.attempts))
        require_time_before(plan, order.deadline_s)
        shown = [parts[number] for number in rest.attempts]
        print_part_rows("job", shown, jobs)
        note(
            f"{sum(len(one.keys) for one in shown)} groups for {len(shown)} managed jobs, a "
            "machine for each"
        )
        quoted = _quoted(order, plan, variables, rest.attempts)
        if dry_run:
            return 0
        if not hiring.yes:
            agree()
        return _submit(quoted, key, rest.attempts, variables)


def split_of_jobs(hiring: ManagedOptions, items: Sequence[Item]) -> Split:
    """Return the split of groups between managed jobs, none of which is without a group.

    Args:
        hiring: with the number of jobs and the split, if they were given.
        items: the groups; there are no more jobs than these.

    Raises:
        UsageError: the split cannot be read, has another number of jobs, or leaves one without a
            group.
    """
    text = hiring.split or Longest.kind
    split = read_split(text, min(hiring.jobs or JOBS, len(items)))
    jobs = len(split.places)
    if hiring.jobs is not None and ":" in text and jobs != hiring.jobs:
        raise UsageError(
            f"--split {split.text} has {jobs} jobs, and --jobs {hiring.jobs} others; leave out "
            "--jobs"
        )
    if idle := [number for number, part in enumerate(parts_of(split, items)) if not part.items]:
        raise UsageError(
            f"--split {split.text} of {len(items)} groups leaves nothing for job {idle[0] + 1} of "
            f"{jobs}, whose machine would be paid for; give fewer jobs, or another split"
        )
    return split


def measurable(plan: Plan) -> Plan:
    """Return the cells of a plan that lie beside some that can be measured.

    No machine is hired for the others, which are said.

    Raises:
        UsageError: none can be measured.
    """
    keys = {one.shard_key for one in plan.runnable}
    left = dict.fromkeys(one.shard_key for one in plan.cells if one.shard_key not in keys)
    if not keys:
        raise UsageError("the plan has nothing that can be measured; see `skymark plan`")
    if not left:
        return plan
    say(f"left out, for nothing of it can be measured: {named_keys(list(left))}")
    cells = tuple(one for one in plan.cells if one.shard_key in keys)
    return plan.model_copy(update={"cells": cells})


def _order(
    plan: Plan,
    profile: str,
    variables: VariableOptions,
    hiring: ManagedOptions,
    store: Sequence[str],
) -> Order:
    """Return the order of all jobs, whose limits are not known yet."""
    from skymark.cloud.order import Order, idle_minutes_for
    from skymark.cloud.source import job_name
    from skymark.cloud.stores import lasting_store
    from skymark.rundir.layout import new_run_id

    return Order(
        profile=profile,
        plan_hash=plan.hash,
        run_id=job_name(new_run_id(plan.profile, datetime.now(UTC))),  # names of jobs have it
        cluster=QUEUE,
        stores=tuple(store),
        lasting_store=lasting_store(store),
        machine=hiring.machine,
        infra=hiring.infra,
        spot=hiring.spot,
        gpus=hiring.gpus,
        variables=variables.variables(),
        boot_timeout_s=seconds_of(hiring.boot_timeout or "20m", "--boot-timeout"),
        idle_minutes=idle_minutes_for(store, variables.beside(os.environ), keep=False),
    )


def _limited(order: Order, hiring: ManagedOptions, deadline: str | None, jobs: int) -> Order:
    """Return an order with the limits of so many jobs."""
    from skymark.cloud.cost.limits import limits_for

    limits = limits_for(load_profile(order.profile), deadline, hiring.max_cost, jobs)
    return order.model_copy(update=limits.model_dump())


def _quoted(order: Order, plan: Plan, variables: VariableOptions, parts: Collection[int]) -> Quoted:
    """Price the jobs of some parts together, and print it.

    Raises:
        GateError: they may cost more than the ceiling.
    """
    from skymark.cloud.lifecycle.quoting import quote_order

    known = variables.beside(os.environ)
    quoted = quote_order(order, plan, DEFAULT_RESULTS, known, tuple(parts))
    assert quoted.quote is not None
    print_quote(quoted.quote)
    return dataclasses.replace(quoted, secrets={**quoted.secrets, **variables.secrets()})


def _submit(
    whole: Quoted, key: str, attempts: Mapping[int, int], variables: VariableOptions
) -> int:
    from skymark.cloud.lifecycle.following import Choice, Screen
    from skymark.cloud.lifecycle.managed import part_orders, submit_parts
    from skymark.cloud.stores import check_stores

    order = whole.order
    check_stores(order.stores, order.run_id, variables.beside(os.environ))
    end_when_told()
    screen = Screen(say=say, log=plain_stream(sys.stderr), interrupted=lambda: Choice.STOP)
    parts = part_orders(whole, key, attempts)
    going: list[Quoted] = []
    problems: list[str] = []
    try:
        problems = submit_parts(parts, screen, going)
    finally:
        for problem in problems:
            say(problem)
        _say_what_is_on_its_way(order, going, len(parts))
    return 1 if problems else 0


def _say_what_is_on_its_way(order: Order, going: Sequence[Quoted], wanted: int) -> None:
    """Name the jobs and their prices, with the commands that follow and end them."""
    from skymark.cloud.known_machines import hired
    from skymark.cloud.lifecycle.quoting import ordered_machines

    if len(going) < wanted:
        say(
            f"{wanted - len(going)} of {wanted} jobs are not on their way; the same command again "
            "submits them"
        )
    if not going:
        return
    names = [one.order.cluster for one in going]
    lines = [
        f"  {name}: {(hired(name) or ordered_machines(one)).in_words}"
        for name, one in zip(names, going, strict=True)
    ]
    stored = shlex.quote(f"{order.lasting_store}/{order.run_id}")
    say(
        "\n".join(
            [
                f"{order.run_id}: on their way, each until its part is done",
                *lines,
                f"  watch:   skymark status; skymark logs {names[0]}",
                f"  fetch:   skymark fetch {stored} {shlex.quote(f'results/{order.run_id}')}",
                f"  end:     skymark down {' '.join(names)}",
            ]
        )
    )
