"""`skymark exec`: more runs, or jobs of one's own, on a machine that is there."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from skymark.cli.caller import INTERRUPTED, end_when_told, note, say
from skymark.cli.console import plain_stream
from skymark.cli.cost import CostOptions, print_quote
from skymark.cli.grid import points_of_job
from skymark.cli.launch import screen_for
from skymark.cli.parameters import (
    DEFAULT_RESULTS,
    HOW,
    JOB,
    NODES,
    USD,
    Cluster,
    Detach,
    JobName,
    MachinesSplit,
    Output,
    Several,
)
from skymark.cli.rented_ends import how_to_collect, show_end, show_grid
from skymark.cli.rented_options import (
    DEFAULT_OPTIONS,
    DEFAULT_VARIABLES,
    LIMITS,
    MACHINE,
    Stores,
    Sync,
    VariableOptions,
    require_data,
    say_sent,
    source_for,
)
from skymark.cli.splitting import print_parts, split_of_machines
from skymark.execute.partition.split import Balanced
from skymark.execute.planner import load_profile
from skymark.model.duration import seconds_of
from skymark.model.errors import UsageError
from skymark.model.plan import Plan

if TYPE_CHECKING:
    from skymark.cloud.lifecycle.stages import Quoted
    from skymark.cloud.order import Order, UserJob
    from skymark.cloud.source import Source


def execute(  # noqa: PLR0913  # its parameters are the options of a command
    cluster: Cluster,
    /,
    *job: Annotated[
        str,
        Parameter(
            help="A SkyPilot YAML, or a command behind --, in place of scenarios and adapters. A "
            "command runs in skymark's source, with its Python."
        ),
    ],
    options: CostOptions = DEFAULT_OPTIONS,
    variables: VariableOptions = DEFAULT_VARIABLES,
    profile: Annotated[
        str | None,
        Parameter(group=HOW, help="Where settings come from. [default: the machine's profile]"),
    ] = None,
    grid: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            group=HOW,
            help="NAME=VALUE,VALUE,… of a setting that `skymark run --set` knows, such as "
            "workers=1,4,16: a run for each value; of several grids, for each combination. Of a "
            "command: a job for each, with the value in place of {NAME}; of a YAML: as variable.",
        ),
    ] = (),
    gpus: Annotated[
        str | None,
        Parameter(
            name=("--gpus",),
            group=MACHINE,
            help="The part of each machine that a job takes, such as H100:1 or H100:0.5. "
            "[default: all of them for a run, none for a command]",
        ),
    ] = None,
    num_nodes: Annotated[
        int | None,
        NODES,
        Parameter(
            group=MACHINE,
            help="The machines that a job takes. [default: all for a run, one for a command]",
        ),
    ] = None,
    split: MachinesSplit = None,
    workdir: Annotated[
        Path | None,
        Parameter(
            group=JOB,
            help="The directory that a YAML or a command is sent with and runs in. [default: the "
            "YAML's, or skymark's source]",
        ),
    ] = None,
    name: JobName = None,
    detach: Detach = False,
    sync: Sync = (),
    deadline: Annotated[
        str | None,
        Parameter(
            group=LIMITS,
            help="Longest time of each run, such as 90m. [default: the profile's]",
        ),
    ] = None,
    max_cost: Annotated[
        float | None,
        USD,
        Parameter(
            group=LIMITS,
            help="USD of each run, until the machine ends itself. What is expected to cost more is "
            "refused with exit status 3; the machine ends the run when it is used up. [default: "
            "the machine's, or the profile's if that is higher]",
        ),
    ] = None,
    store: Stores = (),
    output: Output = DEFAULT_RESULTS,
) -> int:
    """Run other scenarios, a YAML or a command on a machine that is there, without set-up.

    The machine is one that `launch --keep` or `--idle` left, or that `sky launch` made. Each call
    sends the source as it is here into a directory of its own, so that jobs which wait or run keep
    theirs. Results come home as with `launch`; the machine stays, and its idle timer too. With
    --grid workers=1,4,16 there is a run for each value, all queued at once, with a directory each;
    with --gpus H100:1 besides, as many at once as the machine has cards. Of a command there is a
    job for each: skymark exec NAME --grid lr=0.1,0.01 -- python train.py --lr {lr}.

    Exit status: 0 all is well, 1 the machine, a cell or the job failed or the time was up, 2 bad
    usage or no such machine, nothing was queued, 130 interrupted.
    """
    if job:
        if given := (*options.given(), *_given(profile, split, deadline, max_cost, store)):
            raise UsageError(f"a YAML or a command has no {', '.join(given)}; leave it out")
        from skymark.cloud.order import UserJob

        one = UserJob(
            words=job,
            name=name,
            gpus=gpus,
            num_nodes=num_nodes,
            workdir=workdir,
            variables=variables.variables(),
            secrets=variables.secrets(),
            files=sync,
        )
        return _submit(cluster, points_of_job(one, grid) if grid else [one], detach=detach)
    if workdir is not None:
        raise UsageError(f"--workdir {workdir} is for a job of your own; add a YAML, or -- COMMAND")
    from skymark.cloud.cost.limits import limits_for, require_time_before
    from skymark.cloud.lifecycle.kept_machine import execute as carry_out
    from skymark.cloud.lifecycle.kept_machine import order_of, queue
    from skymark.cloud.lifecycle.quoting import ceiling_there
    from skymark.cloud.lifecycle.retrieving import check_home
    from skymark.cloud.lifecycle.user_jobs import check_nodes
    from skymark.cloud.source import new_submission
    from skymark.cloud.stores import check_stores
    from skymark.rundir.layout import new_run_id

    if deadline is not None:
        seconds_of(deadline)  # else nobody is asked
    known = order_of(cluster, profile)
    limits = limits_for(load_profile(known.profile), deadline, max_cost, known.num_nodes)
    limit_s = limits.deadline_s
    if num_nodes is not None:
        check_nodes(cluster, num_nodes, known.num_nodes)
    sharing = split_of_machines(split, num_nodes or known.num_nodes)
    asked = known.model_copy(
        update={
            "stores": store,
            "deadline_s": limit_s,
            "max_cost_usd": ceiling_there(known, max_cost, limits),
            "keep": True,
            "idle": False,
            "gpus": gpus,
            "split": split or Balanced.kind,
            "job_nodes": None if num_nodes == known.num_nodes else num_nodes,
            "job": name,
            "variables": variables.variables(),
            "submission": None if known.image else new_submission(),
        }
    )
    run_id = new_run_id(known.profile, datetime.now(UTC))
    orders = _orders(asked, run_id, dataclasses.replace(options, profile=known.profile), grid)
    source = source_for((plan for _, plan in orders), sync, with_source=known.image is None)
    orders = [(order.model_copy(update={"source": source}), plan) for order, plan in orders]
    for _, plan in orders:
        require_time_before(plan, limit_s)
        require_data(variables.cache_policy, plan)
    runs = _priced(orders, variables, output, max_cost)
    if len(sharing.places) > 1:
        print_parts(sharing, orders[0][1])
    check_home(output)
    check_stores(store, run_id, variables.beside(os.environ))
    screen = screen_for(runs[0].order, output)
    end_when_told()
    if detach:
        queue(runs, screen)
        _say_how_to_follow(runs, output)
        return 0
    ended = carry_out(runs, screen, output)
    return show_grid(ended, run_id, output) if grid else show_end(ended[0], output)


def _given(*values: object) -> list[str]:
    names = ("--profile", "--split", "--deadline", "--max-cost", "--store")
    return [name for name, value in zip(names, values, strict=True) if value]


def _orders(
    asked: Order, run_id: str, options: CostOptions, grid: tuple[str, ...]
) -> list[tuple[Order, Plan]]:
    """Return the order of each point of a grid with its plan, or the one where there is none."""
    from skymark.cli.grid import points

    found = []
    for point, one in (points(options, grid) if grid else {"": options}).items():
        plan = one.plan()
        behind = f"-{point}" if point else ""
        changes = {
            "run_id": f"{run_id}{behind}",
            "plan_hash": plan.hash,
            "job": None if asked.job is None else f"{asked.job}{behind}",
        }
        found.append((asked.model_copy(update=changes), plan))
    return found


def _priced(
    orders: Sequence[tuple[Order, Plan]],
    variables: VariableOptions,
    output: Path,
    max_cost_usd: float | None,
) -> list[Quoted]:
    """Price every run until the machine ends itself, and return them with their secrets.

    Raises:
        UsageError: there is a ceiling, and the machine's price is not known.
        GateError: one is expected to cost more than its ceiling.
    """
    from skymark.cloud.lifecycle.quoting import machine_there, quote_there
    from skymark.cloud.stores import secrets_for
    from skymark.rundir.history import read_history

    machine = machine_there(orders[0][0].cluster, max_cost_usd)
    found = []
    for order, plan in orders:
        secrets = secrets_for(plan, order.stores, variables.beside(os.environ))
        quoted = quote_there(order, plan, read_history(output, plan), machine)
        found.append(dataclasses.replace(quoted, secrets={**secrets, **variables.secrets()}))
        if quoted.quote is None:
            say(f"the price of {order.cluster} is not known: no cost is counted")
            continue
        if len(orders) > 1:
            note(order.run_id)
        print_quote(quoted.quote)
    return found


def _say_how_to_follow(runs: Sequence[Quoted], output: Path) -> None:
    name = runs[0].order.cluster
    say(
        f"the results stay on {name} until it ends\n"
        f"  watch:   skymark queue {name}; skymark logs {name} JOB"
    )
    for one in runs:
        note(f"  fetch:   {how_to_collect(one.order, output)}")


def _submit(cluster: str, jobs: Sequence[UserJob], *, detach: bool) -> int:
    """Put a user's jobs into a machine's queue, and show them to their end unless told not to."""
    from skymark.cloud.lifecycle.following import Choice, Screen
    from skymark.cloud.lifecycle.user_jobs import show, submit
    from skymark.cloud.sky.tasks import is_yaml

    def announce(job: UserJob, source: Source) -> None:
        say_sent(source)
        for word in [] if is_yaml(job.words) else " ".join(job.words).split():
            path = Path(word)
            if path.is_file() and not path.is_absolute() and not (source.directory / path).exists():
                say(f"{word} is a file here that is not sent; --sync {word} sends it")

    queued = []
    for job in jobs:
        one = submit(cluster, job, partial(announce, job))
        queued.append(one)
        words = f": {' '.join(job.words)}" if len(jobs) > 1 else ""
        say(f"job {one.number} of {cluster}{words}; skymark logs {cluster} {one.number}")
    if detach:
        return 0
    screen = Screen(say=say, log=plain_stream(sys.stdout), interrupted=lambda: Choice.LEAVE)
    try:
        well = [show(one, screen) for one in queued]
        return 0 if all(well) else 1
    except KeyboardInterrupt:
        numbers = " ".join(str(one.number) for one in queued)
        say(f"what was queued goes on; end it with skymark cancel {cluster} {numbers}")
        return INTERRUPTED
