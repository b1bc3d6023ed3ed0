"""`skymark rehearse`: a whole run in a simulated cloud, before it costs money."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from skymark.cli.caller import print_plain, say
from skymark.execute.planner import load_profile
from skymark.model.errors import UsageError

if TYPE_CHECKING:
    from skymark.model.plan import Plan

DEFAULT_RESULTS = Path("results") / "rehearsals"
"""Apart from real runs: durations here say nothing of a rented machine."""

REFUSED = {
    "managed": "it runs no controllers of managed jobs",
    "keep": "the machine ends with the rehearsal",
    "image": "a simulated machine runs no containers",
    "spot": "the simulated provider, Lambda, has no spot machines",
}


def rehearse(
    profile: Annotated[
        str, Parameter(help="A name that `skymark list profiles` shows, or a .toml file.")
    ],
    /,
    *options: Annotated[
        str,
        Parameter(
            allow_leading_hyphen=True,
            help="Options of `skymark launch`, such as --scenarios CV-1 --num-nodes 2.",
        ),
    ],
    machine: Annotated[
        Path | None, Parameter(help="A SkyPilot YAML in place of the profile's.")
    ] = None,
    catalogs: Annotated[
        Path | None,
        Parameter(
            help="Prices, such as SkyPilot's in ~/.sky/catalogs/v8. [default: a few of "
            "Lambda's, of autumn 2026]"
        ),
    ] = None,
    output: Annotated[
        Path, Parameter(help="Directory of rehearsed runs; this one gets a directory in it.")
    ] = DEFAULT_RESULTS,
) -> int:
    """Do all that `launch` does on a machine simulated here, for nothing.

    Needs Linux and root: sudo .venv/bin/skymark rehearse ci_cpu. SkyPilot is the real one, with
    SSH, set-up, run, retrieval and teardown; the provider and its machines are simulated. Then it
    says what the run would have cost, and what it changed on this machine and undid. Its figures
    are no measurements. Takes the options of `launch`.

    Exit status: that of `launch`; 2 this machine cannot hold a rehearsal, 1 it did not come up.
    """
    from skymark.cloud.rehearsal import lack_of_room, require_fitness
    from skymark.cloud.rehearsal import rehearse as carry_out

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
            f"a simulated machine has no {platform.upper()}: the check for it is left out, and the "
            "figures say nothing of a real one"
        )
    outcome = carry_out(
        profile,
        (*options, "--output", os.fspath(output)),
        machine=yaml,
        catalogs=catalogs,
        say=say,
    )
    print_plain("\n".join(outcome.lines()))
    return outcome.exit_code


def _check(profile: str, options: tuple[str, ...], machine: Path | None) -> tuple[Path, Plan]:
    """Check all that `skymark launch` is going to be told; returns the machine's YAML and the plan.

    Raises:
        CycloptsError: an option is wrong.
        UsageError: a name, setting or file is wrong, or cannot be rehearsed.
    """
    from skymark.cli.main import app
    from skymark.cli.rented_options import CostOptions
    from skymark.cloud.rented_run import machine_file

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
