"""`skymark rehearse`: a whole run in a simulated cloud, before it costs money."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from skymark.cli.caller import print_json, print_plain, say
from skymark.cli.parameters import DIRECTORY, ProfileName
from skymark.cli.rented_options import CostOptions, MachineFile
from skymark.cli.tables import Json
from skymark.execute.planner import load_profile
from skymark.model.errors import UsageError

if TYPE_CHECKING:
    from skymark.model.plan import Plan

DEFAULT_RESULTS = Path("results") / "rehearsals"
"""Apart from real runs: durations here say nothing of a rented machine."""

YES = ("--yes", "-y")
"""Options that a rehearsal has anyway: it costs nothing."""
REFUSED = {
    "managed": "it runs no controllers of managed jobs",
    "keep": "the machine ends with the rehearsal",
    "image": "a simulated machine runs no containers",
    "spot": "the simulated provider, Lambda, has no spot machines",
}


def rehearse(
    profile: ProfileName,
    /,
    *options: Annotated[
        str,
        Parameter(
            allow_leading_hyphen=True,
            help="Options of `skymark launch`, such as --scenarios CV-1 --num-nodes 2.",
        ),
    ],
    machine: MachineFile = None,
    catalogs: Annotated[
        Path | None,
        DIRECTORY,
        Parameter(
            help="Directory of prices, such as ~/.sky/catalogs/v8. [default: a few prices of "
            "Lambda, of autumn 2026]"
        ),
    ] = None,
    output: Annotated[
        Path, DIRECTORY, Parameter(help="Directory of runs, in which the run gets its own.")
    ] = DEFAULT_RESULTS,
    json: Json = False,
) -> int:
    """Try a launch on a simulated machine here, for free.

    Needs Linux and root. SkyPilot is real, with its SSH, set-up, run, copy of results and
    teardown; the provider and its machines are simulated. At the end you see the price of a real
    run, and the changes to this machine that were undone. The figures are no measurements.

    Examples:
      sudo .venv/bin/skymark rehearse ci_cpu
      sudo .venv/bin/skymark rehearse cpu --scenarios CV-1 --num-nodes 2

    Exit status: as `launch`; 1 the rehearsal did not start; 2 this machine cannot hold one.
    """
    from skymark.cloud.rehearsal import lack_of_room, require_fitness
    from skymark.cloud.rehearsal import rehearse as carry_out

    options = tuple(option for option in options if option not in YES)
    yaml, plan = _check(profile, options, machine)
    say(
        "a rehearsal needs Linux and root, and costs nothing: SkyPilot is real, the provider "
        "(Lambda) and its machines are simulated here"
    )
    require_fitness()
    if lack := lack_of_room(plan):
        say(lack)
    if (platform := load_profile(profile).platform) != "cpu":
        say(
            f"a simulated machine has no {platform.upper()}: skymark does not check for it, and "
            "the figures say nothing about a real machine"
        )
    outcome = carry_out(
        profile,
        (*options, "--output", os.fspath(output)),
        machine=yaml,
        catalogs=catalogs,
        say=say,
        log=sys.stderr if json else None,
    )
    if json:
        print_json(outcome)
    else:
        print_plain("\n".join(outcome.lines()))
    return outcome.exit_code


def _check(profile: str, options: tuple[str, ...], machine: Path | None) -> tuple[Path, Plan]:
    """Check all that `skymark launch` is going to be told; returns the machine's YAML and the plan.

    Raises:
        CycloptsError: an option is wrong.
        UsageError: a name, setting or file is wrong, or cannot be rehearsed.
    """
    from skymark.cli.main import app
    from skymark.cloud.rented_run import machine_file

    if any(option.partition("=")[0] == "--infra" for option in options):
        raise UsageError("a rehearsal is with Lambda, which is simulated here; leave out --infra")
    words = ["launch", profile, "--infra", "lambda", "--yes", *options]
    _, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    given: dict[str, Any] = bound.arguments
    # The options of `launch` come in groups, such as those of the machine and its limits.
    groups = [group for group in given.values() if dataclasses.is_dataclass(group)]
    for name, reason in REFUSED.items():
        if any(getattr(group, name, None) for group in groups):
            raise UsageError(f"--{name} cannot be rehearsed: {reason}; leave it out")
    if load_profile(profile).platform == "tpu":
        raise UsageError(
            f"{profile} needs a TPU, and the simulated provider, Lambda, has none; rehearse "
            "another profile"
        )
    plan = dataclasses.replace(given.get("options", CostOptions()), profile=profile).plan()
    return machine_file(profile, machine), plan
