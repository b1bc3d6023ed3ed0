"""`skymark launch` and the commands for live machines."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from skymark.cli.caller import INTERRUPTED, end_when_told, say
from skymark.cli.cost import CostOptions, print_estimate
from skymark.cli.options import HOW, Several
from skymark.model.errors import GateError, UsageError

if TYPE_CHECKING:
    from skymark.cloud.launch import Choice, Ended, Screen
    from skymark.cloud.order import Order
    from skymark.model.plan import Plan

MACHINE = Group.create_ordered("The machine")
LIMITS = Group.create_ordered("What it may cost")
RESULTS = Group.create_ordered("Results")


DEFAULT_OPTIONS = CostOptions()

Stores = Annotated[
    tuple[str, ...],
    Several,
    Parameter(
        group=RESULTS,
        help="Where the machine puts results besides, cell by cell: s3://BUCKET/PREFIX or wandb "
        "(a directory would go with the machine). Without, they are lost where the connection is "
        "away for as long as --idle-minutes. Keys are taken from this environment.",
    ),
]
Output = Annotated[
    Path, Parameter(group=RESULTS, help="Directory of runs; this one gets a directory in it.")
]
Cluster = Annotated[str, Parameter(help="The machine's name, as `skymark status` shows it.")]
DEFAULT_RESULTS = Path("results")


def launch(  # noqa: PLR0913  # its parameters are the options of a command
    profile: Annotated[
        str, Parameter(help="A name that `skymark list profiles` shows, or a .toml file.")
    ],
    /,
    options: CostOptions = DEFAULT_OPTIONS,
    *,
    infra: Annotated[
        str | None,
        Parameter(
            group=MACHINE,
            help="Only there: vast, lambda, gcp/us-west1, slurm/NAME, k8s … [default: cheapest]",
        ),
    ] = None,
    spot: Annotated[bool, Parameter(group=MACHINE, help="Only a spot machine.")] = False,
    managed: Annotated[
        bool,
        Parameter(
            group=MACHINE,
            help="As SkyPilot's managed job: if the machine is taken away, another one goes on "
            "from --store s3://…, which it needs.",
        ),
    ] = False,
    num_nodes: Annotated[
        int, Parameter(group=MACHINE, help="Machines that share the plan; each cell runs once.")
    ] = 1,
    image: Annotated[
        str | None,
        Parameter(group=MACHINE, help="A container image of skymark, in place of the set-up."),
    ] = None,
    machine: Annotated[
        Path | None,
        Parameter(group=MACHINE, help="A SkyPilot YAML in place of the profile's."),
    ] = None,
    keep: Annotated[
        bool,
        Parameter(
            group=MACHINE,
            help="Leave the machine for `skymark exec`; it ends itself after --idle-minutes.",
        ),
    ] = False,
    idle_minutes: Annotated[
        int | None,
        Parameter(
            group=MACHINE,
            help="Minutes without a job after which the machine ends itself. [default: 1 where "
            "results go to a bucket or W&B too; else 10, for a connection that is away when the "
            "run ends; with --keep 30]",
        ),
    ] = None,
    boot_timeout: Annotated[
        str,
        Parameter(
            group=MACHINE,
            help="Longest time until the machine is up; then it is given back, with exit status 1.",
        ),
    ] = "20m",
    max_cost: Annotated[
        float | None,
        Parameter(
            group=LIMITS,
            help="USD. What may cost more is refused with exit status 3; the machine ends the run "
            "when this is used up.",
        ),
    ] = None,
    deadline: Annotated[
        str | None,
        Parameter(
            group=LIMITS,
            help="Longest time of set-up and run, such as 90m or 2h; the machine keeps to it, the "
            "results so far come home, and the exit status is 1.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, Parameter(group=LIMITS, help="Show prices and plan, and hire nothing.")
    ] = False,
    yes: Annotated[bool, Parameter(group=LIMITS, help="Do not ask about the price.")] = False,
    store: Stores = (),
    output: Output = DEFAULT_RESULTS,
) -> int:
    """Run a profile on a rented machine; the help is in `skymark.cli.main`."""
    from skymark.cloud.launch import launch as carry_out
    from skymark.cloud.launch import offer
    from skymark.cloud.managed import check, check_controller, lasting_store, launch_managed
    from skymark.cloud.order import Order, cluster_name, idle_minutes_for, new_run_id, seconds_of

    chosen = dataclasses.replace(options, profile=profile)
    plan = chosen.plan()
    order = Order(
        profile=_profile_there(profile),
        run_id=new_run_id(profile, datetime.now(UTC)),
        cluster=cluster_name(profile),
        options=_arguments(chosen, store),
        adapters=_with_environments(plan),
        machine=machine,
        infra=infra,
        spot=spot,
        lasting_store=lasting_store(store) if managed else None,
        num_nodes=num_nodes,
        image=image,
        deadline_s=None if deadline is None else seconds_of(deadline),
        max_cost_usd=max_cost,
        keep=keep,
        boot_timeout_s=seconds_of(boot_timeout, "--boot-timeout"),
        idle_minutes=idle_minutes or idle_minutes_for(store, os.environ, keep=keep),
    )
    if managed:
        check(order)
    offered = offer(order, plan, output, os.environ)
    if managed:
        check_controller()
    print_estimate(offered.estimate)
    if dry_run:
        return 0
    if not yes:
        _agree()
    end_when_told()
    carried_out = launch_managed if managed else carry_out
    return _show_end(carried_out(offered, _screen(order), output))


def execute(
    cluster: Cluster,
    /,
    options: CostOptions = DEFAULT_OPTIONS,
    *,
    grid: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            group=HOW,
            help="NAME=VALUE,VALUE,… of a setting that `skymark run --set` knows, such as "
            "workers=1,4,16: a run for each value; of several grids, for each combination.",
        ),
    ] = (),
    deadline: Annotated[
        str | None,
        Parameter(group=LIMITS, help="Longest time of each run, such as 90m or 2h."),
    ] = None,
    store: Stores = (),
    output: Output = DEFAULT_RESULTS,
) -> int:
    """Run something else on a live machine; the help is in `skymark.cli.main`."""
    from skymark.cli.grid import points
    from skymark.cloud.another_run import execute as carry_out
    from skymark.cloud.known_machines import recall
    from skymark.cloud.order import new_run_id, seconds_of

    known = recall(cluster)
    chosen = dataclasses.replace(options, profile=known.profile)
    chosen.plan()
    run_id = new_run_id(known.profile, datetime.now(UTC))
    runs = {run_id: chosen}
    if grid:
        runs = {f"{run_id}-{point}": one for point, one in points(chosen, grid).items()}
    orders = [
        known.model_copy(
            update={
                "run_id": id,
                "options": _arguments(one, store),
                "deadline_s": None if deadline is None else seconds_of(deadline),
                "keep": True,
            }
        )
        for id, one in runs.items()
    ]
    end_when_told()
    ended = carry_out(orders, _screen(orders[0]), output, os.environ)
    return _show_grid(ended, run_id) if grid else _show_end(ended[0])


def _agree() -> None:
    """Ask whether the price is right.

    Raises:
        UsageError: nobody can be asked.
        GateError: the answer is no.
    """
    if not sys.stdin.isatty():
        raise UsageError("nothing was hired: there is no terminal to ask at; add --yes")
    sys.stderr.write("Hire it? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().casefold() not in {"y", "yes"}:
        raise GateError("nothing was hired")


def _screen(order: Order) -> Screen:
    from skymark.cloud.launch import Screen

    return Screen(say=say, log=sys.stderr, interrupted=lambda: _stop_or_leave(order))


def _stop_or_leave(order: Order) -> Choice:
    """Ask what is to become of the machine; without a terminal it is stopped."""
    from skymark.cloud.launch import Choice

    if not sys.stdin.isatty():
        return Choice.STOP
    sys.stderr.write(f"\nStop {order.cluster}, or leave it running? [S/l] ")
    sys.stderr.flush()
    left = sys.stdin.readline().strip().casefold() in {"l", "leave"}
    return Choice.LEAVE if left else Choice.STOP


def _show_end(ended: Ended) -> int:
    """Show the results, the cost and what went wrong; returns the exit status."""
    from skymark.cli.results import show, write_page
    from skymark.run.reader import open_run

    if ended.left_running:
        _say_how_to_come_back(ended.order)
        return 0
    good = True
    if ended.brought is not None and ended.brought.records:
        run = open_run(ended.brought.directory)
        show(run, json=False)
        print(f"results in {run.directory}; {write_page(run)}", file=sys.stderr)
        good = not any(record.status.is_bad for record in run.records)
    elif ended.brought is not None and ended.brought.directory.exists():
        print(f"what was measured is in {ended.brought.directory}", file=sys.stderr)
    for problem in ended.problems:
        say(problem)
    if ended.bill is not None:
        say(
            f"{ended.order.cluster} cost ${ended.bill.price_usd:.4f}: {ended.bill.seconds:.0f} s "
            f"at ${ended.bill.hourly_price_usd:.2f}/h"
        )
    if ended.gone_after_s is None:
        _say_how_to_come_back(ended.order)
    if ended.interrupted:
        return INTERRUPTED
    return 0 if ended.all_well and good else 1


def _show_grid(all_ended: Sequence[Ended], run_id: str) -> int:
    """Show the runs of a grid side by side, and what went wrong; returns the exit status."""
    from skymark.cli.grid import print_points
    from skymark.cli.results import write_page
    from skymark.run.reader import open_run

    runs = {
        ended.order.run_id.removeprefix(f"{run_id}-"): open_run(ended.brought.directory)
        for ended in all_ended
        if ended.brought is not None and ended.brought.records
    }
    print_points(runs)
    for run in runs.values():
        print(f"results in {run.directory}; {write_page(run)}", file=sys.stderr)
    for ended in all_ended:
        for problem in ended.problems:
            say(f"{ended.order.run_id}: {problem}")
    if len(runs) > 1:
        before, after, *_ = (run.directory for run in runs.values())
        say(f"compare two: skymark compare {before} {after} --across cells")
    _say_how_to_come_back(all_ended[-1].order)
    if any(ended.interrupted for ended in all_ended):
        return INTERRUPTED
    good = not any(record.status.is_bad for run in runs.values() for record in run.records)
    return 0 if good and all(ended.all_well for ended in all_ended) else 1


def _say_how_to_come_back(order: Order) -> None:
    name = order.cluster
    if order.lasting_store is not None:
        say(
            f"{name} goes on, and ends its machine itself\n"
            f"  watch:   skymark logs {name}\n"
            f"  fetch:   skymark fetch {order.lasting_store}/{order.run_id} DIRECTORY\n"
            f"  end:     skymark down {name}"
        )
        return
    say(
        f"{name} is up, and ends itself after {order.idle_minutes} idle min\n"
        f"  watch:   skymark logs {name}\n"
        f"  fetch:   skymark rsync {name}:skymark-results/{order.run_id} results\n"
        f"  more:    skymark exec {name} --scenarios …\n"
        f"  end:     skymark down {name}"
    )


def _profile_there(profile: str) -> str:
    """Return a profile as the machine finds it: by name, or by its path in what is sent.

    Raises:
        UsageError: the file is outside of what is sent.
    """
    if not profile.endswith(".toml"):
        return profile
    from skymark.cloud.machine_kinds import checkout

    path = Path(profile).resolve()
    if not path.is_relative_to(checkout()):
        raise UsageError(f"{profile} is outside {checkout()}, which is what the machine gets")
    return path.relative_to(checkout()).as_posix()


def _with_environments(plan: Plan) -> tuple[str, ...]:
    """Return the plan's adapters whose environments can be made before the run."""
    from skymark.suites.loading.registry import adapters

    known = adapters()
    planned = ((name, known.get(name.partition("@")[0])) for name in plan.groups())
    return tuple(name for name, cls in planned if cls is not None and not cls.install_hint)


def _arguments(options: CostOptions, stores: tuple[str, ...]) -> tuple[str, ...]:
    """Return options as arguments of `skymark run`; those that have their default are left out.

    Raises:
        UsageError: one of them names files of this machine.
    """
    data = options.data
    if data is not None and "://" not in data:
        raise UsageError(f"--data {data} lies on this machine; give hf://owner/name")
    found: list[str] = []
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name == "profile" or value == field.default:
            continue
        flag = f"--{field.name.replace('_', '-')}"
        found += [f"{flag}={one}" for one in (value if isinstance(value, tuple) else (value,))]
    return (*found, *(f"--store={one}" for one in stores))
