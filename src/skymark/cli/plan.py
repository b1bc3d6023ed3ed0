"""`skymark plan`: show a plan, and write its file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from skymark.api import expected_time
from skymark.cli.against import Against, revision_asked_for
from skymark.cli.caller import note, print_json, print_plain
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
from skymark.cli.tables import print_rows, short_time
from skymark.execute.duration import with_measured_times
from skymark.execute.planner import lacks_here, plan_text, write_plan
from skymark.execute.project_file import results_directory
from skymark.model.plan import Plan
from skymark.model.sizes import count_of
from skymark.report.text import about, duration

if TYPE_CHECKING:
    from skymark.execute.revision import Revision


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


def print_plan(plan: Plan, against: Revision | None = None) -> None:
    """Print a plan: one row per scenario, with the adapters that run and the refused ones.

    Args:
        plan: the cells.
        against: the revision that they are compared with; None for a run by itself.
    """
    effort = plan.bounds
    rows: dict[str, tuple[list[str], list[str]]] = {}
    for planned in plan.cells:
        runs, refused = rows.setdefault(planned.cell.label, ([], []))
        if planned.refusal is None:
            runs.append(planned.cell.adapter)
        else:
            status, cause = planned.refusal
            refused.append(f"{planned.cell.adapter} ({status.value}: {cause.message})")
    print_rows(
        ("scenario", "adapters", "not run"),
        ((label, " ".join(runs), "; ".join(refused)) for label, (runs, refused) in rows.items()),
    )
    for sentence in plan.sentences:
        print_plain(f"\n{sentence}")
    rounds = (
        f"{effort.min_rounds}"
        if effort.min_rounds == effort.max_rounds
        else f"{effort.min_rounds} to {effort.max_rounds}"
    )
    many = "" if rounds == "1" else "s"
    each = f"round{many} each"
    if against is not None:
        each = f"pair{many} of rounds each against {against.short}"
    adapters = {planned.cell.adapter for planned in plan.runnable}
    time = expected_time(plan, in_pairs=against is not None, history=results_directory())
    if plan.allotment is None:
        takes = about(time.measuring)
    else:
        takes = f"at most {duration(plan.allotment.time_s)} (goal {plan.allotment.goal})"
    left_out = len(plan.cells) - len(plan.runnable)
    cells = f"{count_of(len(plan.runnable), 'cell')} of {count_of(len(adapters), 'adapter')}"
    beside = f", {left_out} left out" if left_out else ""
    made = f"(effort {effort.name}); {takes}, once venvs and data are made"
    print_plain(f"\n{cells} to measure{beside}; {rounds} {each} {made}")
    if warning := short_time(plan, time):
        note(warning)
    for lack in lacks_here(plan):
        note(lack)
