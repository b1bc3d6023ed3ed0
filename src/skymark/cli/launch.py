"""`skymark launch` and `exec`: a plan on a machine to rent, or more work on one that is up."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from skymark import cloud
from skymark.cli.caller import INTERRUPTED, note, print_json, say
from skymark.cli.cost import as_json, how_to_share, print_quote
from skymark.cli.grid import points, points_of_job
from skymark.cli.help import RARE
from skymark.cli.options import given_options
from skymark.cli.parameters import (
    DIRECTORY,
    JOB,
    NAME,
    NODES,
    RESULTS,
    WHAT,
    Cluster,
    Detach,
    JobName,
    MachinesSplit,
    Output,
    ProfileName,
    Several,
)
from skymark.cli.rented_options import (
    DEFAULT_LAUNCH,
    DEFAULT_LIMITS,
    DEFAULT_OPTIONS,
    DEFAULT_VARIABLES,
    LIMITS,
    MACHINE,
    CostOptions,
    DryRun,
    LaunchOptions,
    LimitOptions,
    Stores,
    Sync,
    VariableOptions,
    Yes,
)
from skymark.cli.splitting import print_parts
from skymark.cli.tables import Json
from skymark.execute.planner import planned
from skymark.execute.project_file import results_directory
from skymark.model.errors import UsageError
from skymark.model.requests import Job, Results, Work
from skymark.suite.registry import suite_named

if TYPE_CHECKING:
    from skymark.cli.rented_options import OnOptions
    from skymark.cli.run import RunOptions
    from skymark.cloud import Ended, Kept, Left, Quoted
    from skymark.model.plan import Plan


def launch(  # noqa: PLR0913  # its parameters are the options of a command
    profile: ProfileName,
    /,
    options: CostOptions = DEFAULT_OPTIONS,
    variables: VariableOptions = DEFAULT_VARIABLES,
    where: LaunchOptions = DEFAULT_LAUNCH,
    limits: LimitOptions = DEFAULT_LIMITS,
    *,
    name: JobName = None,
    detach: Detach = False,
    sync: Sync = (),
    dry_run: Annotated[DryRun, Parameter(group=LIMITS)] = False,
    yes: Annotated[Yes, Parameter(group=LIMITS)] = False,
    store: Stores = (),
    output: Output = None,
    json: Annotated[Json, Parameter(group=RESULTS)] = False,
) -> int:
    """Rent a machine, run a profile there, and end the machine.

    Shows the price and asks, rents the machine, shows the progress, copies the results here and
    checks them, ends the machine, and says the cost. A timer on the machine ends it even if this
    terminal closes, which ends nothing by itself. Ctrl-C asks whether to stop the machine or to
    leave it running. If results are verified nowhere, the machine stays for its idle minutes, and
    skymark prints the commands that fetch them. Needs SkyPilot: make cloud, or skymark env cloud.

    Examples:
      skymark launch cpu --scenarios CV-1 --max-cost 2
      skymark launch clip_8xh100 --gpus H100:8 --store s3://BUCKET/PREFIX --managed

    Exit status: 0 all is well; 1 the machine or a cell failed, the time was up, or results are
    missing; 2 nothing was rented; 3 too dear, or you said no; 130 interrupted. It is also 1 if the
    machine is not proved gone: skymark prints its id, its price and the command that ends it.
    """
    from skymark.cli.terminal import Terminal

    home = output or results_directory()
    ended = cloud.launch(
        dataclasses.replace(options, profile=profile).work(),
        where.request(),
        limits.limits(),
        Results(directory=home, stores=store),
        Job(
            name=name,
            split=where.split,
            variables=variables.variables(),
            secrets=variables.secrets(),
            files=sync,
        ),
        Terminal(home, show_launched, json=json, yes=yes),
        detach=detach,
        dry_run=dry_run,
    )
    return _shown(ended, home, json=json)


def run_on(work: Work | Plan, on: OnOptions, how: RunOptions) -> int:
    """Measure work on a machine that is rented for it alone; returns the exit status.

    Raises:
        UsageError: an option is for a run on this machine, or the plan is for a CPU.
    """
    from skymark.cli.terminal import Terminal

    if given := given_options(how, "store", "json", "gpu_fraction"):
        raise UsageError(f"{' and '.join(given)} is for a run here; leave it or --on out")
    plan, _ = planned(work)
    if plan.platform == "cpu" and on.machine is None:
        raise UsageError(
            f"--on {on.on}: the profile {plan.profile} is for a CPU; give another --profile, which "
            "`skymark list profiles` shows"
        )
    home = results_directory()
    ended = cloud.launch(
        work,
        on.request(),
        on.limits(),
        Results(directory=home, stores=how.store),
        Job(
            all_gpus=suite_named(plan.suite).shares_machine,
            gpu_fraction=how.gpu_fraction,
            secrets=on.secrets(),
        ),
        Terminal(home, show_launched, json=how.json, yes=on.yes),
        detach=on.detach,
        dry_run=on.dry_run,
    )
    return _shown(ended, home, json=how.json)


def _shown(ended: Ended | Kept | Left | Quoted, home: Path, *, json: bool) -> int:
    """Show the end of a run on a rented machine, or its price; returns the exit status."""
    from skymark.cli.terminal import show_end

    if not isinstance(ended, cloud.Quoted):
        return show_end(ended, home, json=json)
    if json and ended.quote is not None:
        print_json(as_json(ended.quote))
    return 0


def show_launched(quoted: Quoted) -> None:
    """Print what a run costs, how long its machine stays, and what each machine takes."""
    run, quote = quoted.run, quoted.quote
    assert quote is not None
    notes = []
    if run.machine.stays:
        usd = quote.cheapest.hourly_price_usd * quote.num_nodes
        what = "Nothing is run: the machine is set up and waits" if run.machine.idle else "It stays"
        notes.append(
            f"{what} for jobs, at {usd:.2f} USD per hour, until it ends itself after "
            f"{run.idle_minutes} idle min. `skymark exec` and `submit` say what their runs add."
        )
    if quoted.shared is not None:
        notes.append(
            f"All GPUs work with {how_to_share(quoted.plan, run.profile)}: expected "
            f"{quoted.shared.cost.expected_usd:.2f} USD for all cells."
        )
    print_quote(quote, notes)
    if run.machine.nodes > 1 and not run.machine.idle:
        print_parts(run.sharing, quoted.plan)


def execute(  # noqa: PLR0913  # its parameters are the options of a command
    cluster: Cluster,
    /,
    *job: Annotated[
        str,
        Parameter(
            help="A SkyPilot YAML, or a command after --, in place of scenarios and adapters. A "
            "command runs in skymark's source, with its Python."
        ),
    ],
    options: CostOptions = DEFAULT_OPTIONS,
    variables: VariableOptions = DEFAULT_VARIABLES,
    limits: LimitOptions = DEFAULT_LIMITS,
    profile: Annotated[
        str | None,
        NAME,
        Parameter(
            group=(WHAT, RARE),
            help="Profile with the defaults for all options. [default: the machine's profile]",
        ),
    ] = None,
    grid: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            group=WHAT,
            metavar="NAME=VALUE,VALUE...",
            help="A run for each value of a setting, such as workers=1,4,16; for several grids, "
            "each combination. A command gets the value for {NAME}, a YAML as variable.",
        ),
    ] = (),
    gpus: Annotated[
        str | None,
        Parameter(
            group=MACHINE,
            metavar="GPU:N",
            help="GPUs that each job takes, such as H100:1 or H100:0.5. [default: all for a run, "
            "none for a command]",
        ),
    ] = None,
    num_nodes: Annotated[
        int | None,
        NODES,
        RESULTS,
        Parameter(
            group=MACHINE,
            help="Machines that a job takes. [default: all for a run, 1 for a command]",
        ),
    ] = None,
    split: MachinesSplit = None,
    workdir: Annotated[
        Path | None,
        DIRECTORY,
        Parameter(
            group=JOB,
            help="Directory to send with a YAML or command, which runs in it. [default: the "
            "YAML's, or skymark's source]",
        ),
    ] = None,
    name: JobName = None,
    detach: Detach = False,
    sync: Sync = (),
    store: Stores = (),
    output: Output = None,
    json: Annotated[Json, Parameter(group=RESULTS)] = False,
) -> int:
    """Run more work, or a command, on a machine that is up.

    The machine is from `launch --keep`, `launch --idle` or `sky launch`. Each call sends the
    present source into a directory of its own. Results come home as with `launch`; the
    machine and its idle timer stay. A grid queues all its jobs at once; with --gpus H100:1 as many
    run side by side as the machine has GPUs.

    Examples:
      skymark exec NAME --scenarios CV-1 --grid workers=1,4,16 --gpus H100:1
      skymark exec NAME --grid lr=0.1,0.01 -- python train.py --lr {lr}

    Exit status: 0 all is well; 1 the machine, a cell or the job failed, or the time was up; 2
    nothing was queued; 130 interrupted.
    """
    from skymark.cli.terminal import Terminal, end_json, show_end, show_grid

    home = output or results_directory()
    work = Job(
        name=name,
        words=job,
        gpus=gpus,
        nodes=num_nodes,
        split=split,
        variables=variables.variables(),
        secrets=variables.secrets(),
        files=sync,
        workdir=workdir,
    )
    if job:
        if given := (
            *options.given(),
            *_given(profile, split, limits.deadline, limits.max_cost, store),
        ):
            raise UsageError(
                f"{' and '.join(given)} cannot be given for a YAML or a command; leave it out"
            )
        jobs = points_of_job(work, grid) if grid else [work]
        return _run_commands(cluster, jobs, detach=detach, json=json)
    if workdir is not None:
        raise UsageError(f"--workdir {workdir} needs a YAML or -- COMMAND, which runs in it")
    most = limits.limits()  # else nobody is asked
    profile = cloud.run_of_machine(cluster, profile).profile
    chosen = dataclasses.replace(options, profile=profile).work()
    requests = points(chosen, grid) if grid else {"": chosen}
    ended = cloud.execute(
        cluster,
        requests,
        most,
        Results(directory=home, stores=store),
        work,
        Terminal(home, show, json=json),
        detach=detach,
    )
    if detach:
        left = [one for one in ended if isinstance(one, cloud.Left)]
        _say_how_to_follow(left, home)
        if json:
            print_json([end_json(one) for one in left])
        return 0
    over = [one for one in ended if not isinstance(one, cloud.Left)]
    if grid:
        return show_grid(dict(zip(requests, over, strict=True)), home, json=json)
    return show_end(over[0], home, json=json)


def show(quoted: Quoted) -> None:
    """Print what a run costs until its machine ends itself, and what each machine takes."""
    run = quoted.run
    if quoted.quote is None:
        say(f"the price of {run.name} is unknown, so skymark counts no cost")
    else:
        note(run.run_id)
        print_quote(quoted.quote)
    if len(run.sharing.places) > 1:
        print_parts(run.sharing, quoted.plan)


def _given(*values: object) -> list[str]:
    names = ("--profile", "--split", "--deadline", "--max-cost", "--store")
    return [name for name, value in zip(names, values, strict=True) if value]


def _say_how_to_follow(runs: Sequence[Left], output: Path) -> None:
    from skymark.cli.terminal import how_to_collect

    name = runs[0].run.name
    say(
        f"the results stay on {name} until it ends\n"
        f"  watch:   skymark queue {name}; skymark logs {name} JOB"
    )
    for left in runs:
        note(f"  fetch:   {how_to_collect(left.run, output)}")


def _run_commands(cluster: str, jobs: Sequence[Job], *, detach: bool, json: bool) -> int:
    """Put a user's jobs into a machine's queue, and show them to their end unless detached.

    With JSON, the jobs' output goes to standard error.
    """
    from skymark.cli.terminal import Terminal

    command = () if jobs[0].is_yaml else jobs[0].words
    log = sys.stderr if json else sys.stdout
    terminal = Terminal(log=log, command=" ".join(command).split())
    queued = cloud.queue_commands(cluster, jobs, terminal)
    all_well = True
    try:
        if not detach:
            all_well = cloud.follow_commands(queued, terminal)
    except KeyboardInterrupt:
        numbers = " ".join(str(job.number) for job in queued)
        say(f"the queued jobs go on; end them: skymark cancel {cluster} {numbers}")
        return INTERRUPTED
    if json:
        ended = None if detach else all_well
        print_json({"machine": cluster, "jobs": [one.number for one in queued], "all_well": ended})
    return 0 if all_well else 1
