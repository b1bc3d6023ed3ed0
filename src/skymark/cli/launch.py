"""`skymark launch`: carry out a plan on a rented machine."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from skymark.cli.caller import ask, end_when_told, say
from skymark.cli.console import plain_stream
from skymark.cli.cost import CostOptions, how_to_share, on_all_gpus, print_quote
from skymark.cli.parameters import (
    DEFAULT_RESULTS,
    IDLE_MINUTES,
    NODES,
    USD,
    Detach,
    JobName,
    MachinesSplit,
    Output,
    ProfileName,
)
from skymark.cli.rented_ends import show_end
from skymark.cli.rented_options import (
    DEFAULT_OPTIONS,
    DEFAULT_VARIABLES,
    LIMITS,
    MACHINE,
    Stores,
    Sync,
    VariableOptions,
    require_data,
    source_for,
)
from skymark.cli.splitting import print_parts, split_of_machines
from skymark.execute.partition.split import Balanced
from skymark.execute.planner import load_profile
from skymark.model.duration import seconds_of
from skymark.model.errors import GateError, UsageError

if TYPE_CHECKING:
    from skymark.cloud.cost.quote import Quote
    from skymark.cloud.lifecycle.following import Choice, Screen
    from skymark.cloud.order import Order
    from skymark.model.plan import Plan


class Hangup:
    """The end of this process's terminal, which it outlives."""

    def __init__(self, log: Path) -> None:
        """Name the file that gets the output then; it is not made before."""
        self._log = log

    def outlive(self) -> None:
        """Go on when told that the terminal is gone; under nohup that is so already."""
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._go_on)

    def say(self, text: str) -> None:
        """Print a message; where nobody can be told any more, write it into the file."""
        try:
            say(text)
        except OSError:
            self._write_into_log()
            say(text)

    def _go_on(self, signal_number: int, frame: FrameType | None) -> None:
        del signal_number, frame
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._write_into_log()
        os.write(2, b"skymark: the terminal was closed; going on\n")  # print may be at work

    def _write_into_log(self) -> None:
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError:
            log = os.open(os.devnull, os.O_WRONLY)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for stream, file in ((0, nothing), (1, log), (2, log)):
            os.dup2(file, stream)
        os.close(log)
        os.close(nothing)


def launch(  # noqa: PLR0913  # its parameters are the options of a command
    profile: ProfileName,
    /,
    options: CostOptions = DEFAULT_OPTIONS,
    variables: VariableOptions = DEFAULT_VARIABLES,
    *,
    cluster: Annotated[
        str | None,
        Parameter(
            name=("--cluster", "-c"),
            group=MACHINE,
            help="The machine's name. [default: skymark-PROFILE, with a number where that is "
            "taken]",
        ),
    ] = None,
    name: JobName = None,
    detach: Detach = False,
    sync: Sync = (),
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
    gpus: Annotated[
        str | None,
        Parameter(group=MACHINE, help="In place of the profile's: H100:8, A100-80GB:1 …"),
    ] = None,
    num_nodes: Annotated[
        int,
        NODES,
        Parameter(group=MACHINE, help="Machines that share the plan; each cell runs once."),
    ] = 1,
    split: MachinesSplit = None,
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
    idle: Annotated[
        bool,
        Parameter(
            group=MACHINE,
            help="Set the machine up, run nothing, and leave it as --keep does.",
        ),
    ] = False,
    down: Annotated[
        bool,
        Parameter(
            group=MACHINE,
            help="End the machine after the run; so it is anyway, without --keep or --idle.",
        ),
    ] = False,
    idle_minutes: Annotated[
        int | None,
        IDLE_MINUTES,
        Parameter(
            name=("--idle-minutes", "--idle-minutes-to-autostop", "-i"),
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
        USD,
        Parameter(
            group=LIMITS,
            help="USD. What may cost more is refused with exit status 3; the machine ends the run "
            "when this is used up. [default: the profile's, for each machine]",
        ),
    ] = None,
    deadline: Annotated[
        str | None,
        Parameter(
            group=LIMITS,
            help="Longest time of set-up and run, such as 90m or 2h; the machine keeps to it, the "
            "results so far come home, and the exit status is 1. [default: the profile's]",
        ),
    ] = None,
    dry_run: Annotated[
        bool, Parameter(group=LIMITS, help="Show prices and plan, and hire nothing.")
    ] = False,
    yes: Annotated[
        bool,
        Parameter(name=("--yes", "-y"), group=LIMITS, help="Do not ask about the price."),
    ] = False,
    store: Stores = (),
    output: Output = DEFAULT_RESULTS,
) -> int:
    """Run a profile on a rented machine: price first, results home, machine gone.

    Shows what it may cost and asks, hires the machine, shows its progress, brings the results
    home, verifies them by digest, ends the machine at once and says what it cost. A timer on the
    machine, armed as soon as it answers, ends it whatever becomes of this terminal. Ctrl-C asks
    whether to stop it or to leave it running. With --managed, another machine goes on where one is
    taken away.
    Needs SkyPilot: make cloud, or where there is no checkout: skymark env cloud.

    Where results can be verified neither here nor in a store, the machine is kept for its idle
    minutes, and the commands that fetch them are printed. A closed terminal ends nothing.

    Exit status: 0 all is well, 1 the machine or a cell failed, the time was up or results are not
    home, 2 bad usage, nothing was hired, 3 too dear, or not agreed to, 130 interrupted, and the
    machine is gone or kept. Where it is not proved gone, the status is 1, and its id, its price and
    the command that ends it are printed.
    """
    from skymark.cloud.cost.limits import limits_for, require_time_before
    from skymark.cloud.lifecycle.carrying_out import carry_out, hire_and_leave
    from skymark.cloud.lifecycle.ending import named_where_left
    from skymark.cloud.lifecycle.managed import ManagedPlace, check_managed
    from skymark.cloud.lifecycle.new_cluster import NewCluster, name_for
    from skymark.cloud.lifecycle.quoting import quote_order
    from skymark.cloud.lifecycle.retrieving import check_home
    from skymark.cloud.order import Order, idle_minutes_for
    from skymark.cloud.sky.managed_jobs import check_controller
    from skymark.cloud.stores import check_stores, lasting_store
    from skymark.rundir.layout import new_run_id

    keep = keep or idle
    _require_that_go_together(
        down=down, keep=keep, idle=idle, detach=detach, managed=managed, split=split
    )
    boot_timeout_s = seconds_of(boot_timeout, "--boot-timeout")
    known = variables.beside(os.environ)
    limits = limits_for(load_profile(profile), deadline, max_cost, num_nodes)
    plan = dataclasses.replace(options, profile=profile).plan()
    require_time_before(plan, limits.deadline_s)
    sharing = split_of_machines(split, num_nodes)
    require_data(variables.cache_policy, plan)
    check_home(output)
    source = source_for([plan], sync, with_source=image is None)
    order = Order(
        profile=profile,
        plan_hash=plan.hash,
        run_id=new_run_id(profile, datetime.now(UTC)),
        cluster=name_for(profile, cluster),
        job=name,
        gpus=gpus,
        variables=variables.variables(),
        source=source,
        idle=idle,
        stores=store,
        machine=machine,
        infra=infra,
        spot=spot,
        lasting_store=lasting_store(store) if managed else None,
        num_nodes=num_nodes,
        split=split or Balanced.kind,
        image=image,
        deadline_s=limits.deadline_s,
        max_cost_usd=limits.max_cost_usd,
        keep=keep or detach,  # whoever comes back may have put jobs of another kind there
        boot_timeout_s=boot_timeout_s,
        idle_minutes=idle_minutes or idle_minutes_for(store, known, keep=keep),
    )
    if managed:
        check_managed(order)
    quoted = quote_order(order, plan, output, known)
    quoted = dataclasses.replace(quoted, secrets={**quoted.secrets, **variables.secrets()})
    if managed:
        check_controller()
    assert quoted.quote is not None
    print_quote(quoted.quote, _notes(quoted.quote, order, plan, output))
    if num_nodes > 1 and not idle:
        print_parts(sharing, plan)
    if dry_run:
        return 0
    if not yes:
        agree()
    check_stores(store, order.run_id, known)
    end_when_told()
    screen = screen_for(order, output)
    if idle or detach:
        with named_where_left(order.cluster, screen.say):
            left = hire_and_leave(quoted, NewCluster(), screen)
        return show_end(left, output)
    place = ManagedPlace() if managed else NewCluster()
    with named_where_left(order.cluster, screen.say):
        ended = carry_out(quoted, place, screen, output)
    return show_end(ended, output)


def _notes(quote: Quote, order: Order, plan: Plan, results: Path) -> list[str]:
    """Say for how long a machine stays, and how all of its GPUs would work."""
    notes = []
    if order.keep:
        usd = quote.cheapest.hourly_price_usd * quote.num_nodes
        what = "Nothing is run: the machine is set up and waits" if order.idle else "It stays"
        notes.append(
            f"{what} for jobs, at {usd:.2f} USD per hour, until it ends itself after "
            f"{order.idle_minutes} idle min. `skymark exec` and `submit` say what their runs add."
        )
    if not order.idle and (shared := on_all_gpus(quote, plan, results)) is not None:
        notes.append(
            f"All GPUs work with {how_to_share(plan, order.profile)}: expected "
            f"{shared.cost.expected_usd:.2f} USD for all cells."
        )
    return notes


def _require_that_go_together(
    *, down: bool, keep: bool, idle: bool, detach: bool, managed: bool, split: str | None
) -> None:
    """Refuse options that contradict one another.

    Raises:
        UsageError: two of them do.
    """
    if down and keep:
        raise UsageError("--down ends the machine, which --keep and --idle leave; give one")
    if idle and split is not None:
        raise UsageError("--idle runs nothing, so nothing is split; give --split to skymark exec")
    if managed and (idle or detach):
        raise UsageError("--managed brings a run home from its store; leave out --idle and -d")


def agree() -> None:
    """Ask whether the price is right.

    Raises:
        UsageError: nobody can be asked.
        GateError: the answer is no.
    """
    if not sys.stdin.isatty():
        raise UsageError("nothing was hired: there is no terminal to ask at; add --yes")
    if ask("Hire it? [y/N] ") not in {"y", "yes"}:
        raise GateError("nothing was hired")


def screen_for(order: Order, output: Path) -> Screen:
    """Return callbacks that outlive the terminal."""
    from skymark.cloud.lifecycle.following import Screen

    log = output / f"{order.run_id}.log"
    hangup = Hangup(log)
    hangup.outlive()
    say(f"should this terminal be closed, it goes on, with its output in {log}")
    return Screen(
        say=hangup.say,
        log=plain_stream(sys.stderr),
        interrupted=lambda: _stop_or_leave(order),
    )


def _stop_or_leave(order: Order) -> Choice:
    """Ask what is to become of the machine; without a terminal it is stopped."""
    from skymark.cloud.lifecycle.following import Choice

    if not sys.stdin.isatty():
        return Choice.STOP
    answer = ask(f"\nStop {order.cluster}, or leave it running? [S/l] ")
    return Choice.LEAVE if answer in {"l", "leave"} else Choice.STOP
