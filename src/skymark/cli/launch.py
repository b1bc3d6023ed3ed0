"""`skymark launch`: carry out a plan on a rented machine."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from skymark.cli.caller import print_json
from skymark.cli.cost import as_json, how_to_share, print_quote
from skymark.cli.parameters import RESULTS, Detach, JobName, Output, ProfileName
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
from skymark.cli.tables import Json
from skymark.execute.project_file import results_directory
from skymark.model.requests import Job, Results

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
        bool, Parameter(group=LIMITS, help="Show the price and the plan, and rent nothing.")
    ] = False,
    yes: Annotated[
        bool,
        Parameter(name=("--yes", "-y"), group=LIMITS, help="Accept the price without a question."),
    ] = False,
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
    from skymark import cloud
    from skymark.cli.rented_ends import show_end, shown_beside_json
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
        Terminal(home, shown_beside_json(show, json=json), yes=yes),
        detach=detach,
        dry_run=dry_run,
    )
    if not isinstance(ended, cloud.Quoted):
        return show_end(ended, home, json=json)
    if json and ended.quote is not None:
        print_json(as_json(ended.quote))
    return 0


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
