"""`skymark launch`: carry out a plan on a rented machine."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from skymark.cli.cost import how_to_share, print_quote
from skymark.cli.parameters import Detach, JobName, Output, ProfileName
from skymark.cli.rented_options import (
    DEFAULT_LAUNCH,
    DEFAULT_LIMITS,
    DEFAULT_OPTIONS,
    DEFAULT_VARIABLES,
    LIMITS,
    CostOptions,
    LaunchOptions,
    LimitOptions,
    Stores,
    Sync,
    VariableOptions,
)
from skymark.cli.splitting import print_parts
from skymark.model.requests import DEFAULT_RESULTS, Job, Results

if TYPE_CHECKING:
    from skymark.cloud import Quoted


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
    from skymark import cloud
    from skymark.cli.rented_ends import show_end
    from skymark.cli.terminal import Terminal

    ended = cloud.launch(
        dataclasses.replace(options, profile=profile).work(),
        where.request(),
        limits.limits(),
        Results(directory=output, stores=store),
        Job(
            name=name,
            split=where.split,
            variables=variables.variables(),
            secrets=variables.secrets(),
            files=sync,
        ),
        Terminal(output, show, yes=yes),
        detach=detach,
        dry_run=dry_run,
    )
    return 0 if isinstance(ended, cloud.Quoted) else show_end(ended, output)


def show(quoted: Quoted) -> None:
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
