"""`skymark plan`: show a plan, and write its file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from skymark.cli.against import Against, revision_asked_for
from skymark.cli.caller import note, print_json
from skymark.cli.help import RARE
from skymark.cli.options import DEFAULT_OPTIONS, PlanOptions
from skymark.cli.parameters import (
    FILE,
    SHARING,
    WHERE,
    Explain,
    Several,
    Split,
    TotalCpus,
    TotalMemory,
)
from skymark.cli.splitting import print_split, require_split
from skymark.cli.tables import print_plan
from skymark.execute.duration import with_measured_times
from skymark.execute.planner import plan_text, write_plan
from skymark.model.plan import Plan


def plan(
    options: PlanOptions = DEFAULT_OPTIONS,
    *,
    output: Annotated[
        Path | None,
        FILE,
        Parameter(group=WHERE, help="Write the plan into this file, for `skymark run --plan`."),
    ] = None,
    json: Annotated[
        bool,
        Parameter(group=WHERE, help="Print JSON: the plan's file, or with --split each part."),
    ] = False,
    split: Split = None,
    explain: Explain = False,
    total_cpus: TotalCpus = None,
    total_memory: TotalMemory = None,
    measured: Annotated[
        tuple[Path, ...],
        Several,
        Parameter(
            group=(SHARING, RARE),
            metavar="DIRECTORY...",
            help="Earlier runs, whose times the plan takes. The file of --output keeps them, so "
            "that all workers split alike.",
        ),
    ] = (),
    against: Against = None,
) -> int:
    """Show the measurements that `run` would make, and their time.

    Also shows why a loader cannot do a scenario. --output writes the plan as a file, which
    `skymark run --plan FILE` carries out here or elsewhere. --split shows each worker's part.

    Examples:
      skymark plan --profile cpu --scenarios CV-1
      skymark plan --adapters pytorch grain --output plan.json
    """
    made = options.plan()
    require_split(split, total_cpus, total_memory, explain=explain)
    revision = revision_asked_for(against, made, {"split": split})
    if measured:
        made = with_measured_times(made, measured)
    write_plan_file(made, output)
    if split is not None:
        print_split(made, split, total_cpus, total_memory, explain=explain, json=json)
    elif json:
        print_json(plan_text(made).rstrip("\n"))
    else:
        print_plan(made, revision)
    return 0


def write_plan_file(plan: Plan, output: Path | None) -> None:
    """Write a plan into a file, if there is one, and print the command that runs it."""
    if output is not None:
        write_plan(plan, output)
        note(f"plan in {output}; run it: skymark run --plan {output}")
