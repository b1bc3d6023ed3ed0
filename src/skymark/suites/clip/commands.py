"""Score CLIP models on data sets: plan, run, status and tables of models × data sets."""

from __future__ import annotations

import json as json_module
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from skymark.cli.caller import note, print_json, print_plain, say
from skymark.cli.options import PlanOptions, declared_options, typed_options, with_options
from skymark.cli.parameters import (
    USD,
    WHAT,
    WHERE,
    Explain,
    Several,
    Split,
    TotalCpus,
    TotalMemory,
)
from skymark.cli.run import DEFAULT_HOW, RunOptions, measure, write_plan_file
from skymark.cli.submit import submit
from skymark.cli.tables import Json
from skymark.execute.planner import read_plan
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.record import Cell
from skymark.report.progress import CellState, State, counted, states_at
from skymark.report.sheet import SheetFormat, as_text, grid_of, readings_at
from skymark.suite.registry import suite_named
from skymark.suites.clip.plan_table import (
    aligned,
    as_json,
    pair_lines,
    price_of,
    share_lines,
    shares_of,
    summary,
)

SUITE = "clip"
MODEL, DATA_SET = "model", "data set"

if TYPE_CHECKING:
    OwnOptions = dict[str, Any]
else:
    OwnOptions = typed_options(declared_options([suite_named(SUITE)]))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ClipOptions(PlanOptions):
    """The options that say which models to score on which data sets."""

    profile: Annotated[
        str, Parameter(group=WHAT, help="Profile with the defaults for all options.")
    ] = "clip"
    adapters: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            name="--models",
            group=WHAT,
            help="ARCHITECTURE:TAG as open_clip calls them, ARCHITECTURE:./FILE.pt for a "
            "checkpoint of your own, globs such as `ViT-B-*:laion2b*`, a .txt file with one name "
            "per line, or all.",
        ),
    ] = ()
    scenarios: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            name="--datasets",
            group=WHAT,
            help="Public names such as wds/vtab/cifar10, a directory of your own (./my_set), "
            "globs such as `wds/vtab/*`, retrieval, sugar_crepe, imagenet_robustness, a .txt file "
            "with one name per line, or all.",
        ),
    ] = ()
    own: Annotated[OwnOptions, Parameter(name="*")] = field(default_factory=dict)


DEFAULT_WORK = ClipOptions()
COMMANDS = App(name=SUITE, help=__doc__)


@COMMANDS.command
def plan(  # its parameters are the options of a command
    options: ClipOptions = DEFAULT_WORK,
    *,
    pairs: Annotated[
        bool, Parameter(group=WHERE, help="List every pair instead of one line for each model.")
    ] = False,
    hourly_price: Annotated[
        float | None,
        USD,
        Parameter(group=WHERE, help="USD per hour of the machine, for the price."),
    ] = None,
    infra: Annotated[
        str | None,
        Parameter(
            group=WHERE,
            help="Look the price of the profile's machine up there, in SkyPilot's catalogue: "
            "lambda, vast, gcp/us-west1 … `skymark cost PROFILE` adds set-up and end.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        Parameter(group=WHERE, help="Write the plan into this file, for `skymark run --plan`."),
    ] = None,
    json: Annotated[Json, Parameter(group=WHERE)] = False,
    split: Split = None,
    explain: Explain = False,
    total_cpus: TotalCpus = None,
    total_memory: TotalMemory = None,
) -> int:
    """Show what `run` would measure: pairs, groups, memory needed, time and price.

    Times are those of the same cells in earlier runs here, else guesses. With --split it shows
    which worker takes what, and what each asks for of a total.
    """
    from skymark.cli.splitting import print_split, require_split

    require_split(split, total_cpus, total_memory, explain=explain)
    planned = options.plan()
    price = price_of(planned, options.profile, hourly_price, infra)
    write_plan_file(planned, output)
    if split is not None:
        print_split(planned, split, total_cpus, total_memory, explain=explain, json=json)
        return 0
    shares = shares_of(planned)
    if json:
        print_json(json_module.dumps(as_json(planned, shares, price, pairs=pairs), indent=1))
    else:
        print_plain("\n".join(pair_lines(planned) if pairs else share_lines(shares, price)))
    for text in planned.sentences:
        note(text)
    note(summary(planned, shares, price))
    return 0


@COMMANDS.command
def run(options: ClipOptions = DEFAULT_WORK, how: RunOptions = DEFAULT_HOW) -> int:
    """Score models on data sets on this machine, as `skymark run` measures.

    Ctrl-C keeps what was measured, and the same command with --output DIRECTORY --resume goes on.
    `skymark run --plan` runs the file that `plan --output` wrote.

    Exit status: 0 all is well, 1 a pair failed, timed out or is invalid, none was measured, or
    something could not be stored, 2 nothing was started, 130 interrupted.
    """
    return measure(options.plan(), how)


COMMANDS.command(with_options(submit, ClipOptions), name="submit")

COUNTED: tuple[tuple[str, Callable[[Cell], str]], ...] = (
    (MODEL, lambda cell: cell.adapter),
    (DATA_SET, lambda cell: cell.label),
)
"""The heading of each table of `status`, and its rows."""


@COMMANDS.command
def status(
    *places: Annotated[
        str,
        Parameter(help="A run's directory, or a stored run: s3://BUCKET/PREFIX/RUN-ID, wandb://…"),
    ],
    plan: Annotated[
        Path | None,
        Parameter(
            help="A file that `plan --output` wrote: its pairs count, wherever their records are."
        ),
    ] = None,
    only: Annotated[
        tuple[Literal["done", "running", "failed", "left-out", "pending"], ...],
        Several,
        Parameter(help="List the pairs in these states, in place of numbers."),
    ] = (),
    json: Json = False,
) -> int:
    """Show how far runs are: done, running, failed and pending pairs.

    Pending is what the plan has and the records have not: nothing else keeps count. Several runs
    count as one, such as those of the machines that share a plan.
    """
    if not places and plan is None:
        raise UsageError("name a run, or a --plan of which no run has begun")
    planned = None if plan is None else read_plan(plan)
    states = states_at(places, suite_named(SUITE), planned, say)
    wanted = {State(name.replace("-", " ")) for name in only}
    chosen = [one for one in states if not wanted or one.state in wanted]
    if json:
        print_json(json_module.dumps([_state(one) for one in chosen], indent=1))
    elif wanted:
        rows = [[one.state.value, one.cell.adapter, one.cell.label, one.message] for one in chosen]
        print_plain("\n".join(aligned(rows)) if rows else "none")
    else:
        for heading, key in COUNTED:
            print_plain("\n".join(_count_lines(states, heading, key)), end="\n\n")
        numbers = Counter(one.state for one in states)
        parts = [f"{numbers[state]} {state.value}" for state in State if numbers[state]]
        print_plain(f"{len(states)} pairs: {', '.join(parts)}")
    return 0


def _count_lines(
    states: Sequence[CellState], heading: str, key: Callable[[Cell], str]
) -> list[str]:
    """Return a table with the numbers of pairs by state."""
    by_name = counted(states, key)
    shown = [state for state in State if any(numbers[state] for numbers in by_name.values())]
    rows = [[heading, *(state.value for state in shown)]]
    rows += [
        [name, *(str(numbers[state] or "") for state in shown)] for name, numbers in by_name.items()
    ]
    return aligned(rows)


def _state(one: CellState) -> dict[str, object]:
    """Return the state of a pair as JSON has it."""
    cell = one.cell.model_dump(include={"adapter", "scenario", "variant", "axes"})
    return {"id": one.cell.id, **cell, "state": one.state.value, "message": one.message or None}


SHEETS = {
    "classification": (("zeroshot_classification",), ("score",)),
    "retrieval": (
        ("zeroshot_retrieval",),
        ("image_retrieval_recall@5", "text_retrieval_recall@5"),
    ),
    "linear probe": (("linear_probe",), ("lp_acc1",)),
    "selection": (("image_caption_selection",), ("acc",)),
}
"""The tables of `table` by name: the tasks in each, and its metrics unless others are given."""


@COMMANDS.command
def table(
    *places: Annotated[
        str,
        Parameter(
            help="Runs' directories, stored runs, or files and directories of results that "
            "another program wrote."
        ),
    ],
    sheet: Annotated[
        tuple[str, ...], Several, Parameter(help="Only these tables. [default: all with figures]")
    ] = (),
    metric: Annotated[
        tuple[str, ...], Several, Parameter(help="Metrics to show, in place of a table's own.")
    ] = (),
    format: Annotated[
        SheetFormat, Parameter(help="csv has every digit; md and html are for people.")
    ] = "md",
    output: Annotated[
        Path | None, Parameter(help="Write into this file. [default: standard output]")
    ] = None,
) -> int:
    """Show figures as tables with a row per model and a column per data set.

    Figures of several runs stand in rows of their own. A mean is over all columns, and left out
    where one was not scored.
    """
    for name in sheet:
        if name not in SHEETS:
            raise UnknownNameError("table", name, SHEETS)
    suite = suite_named(SUITE)
    readings = [one for place in places or ("results",) for one in readings_at(place, suite)]
    texts = []
    for name in sheet or SHEETS:
        tasks, metrics = SHEETS[name]
        grid = grid_of(readings, suite.declaration, tasks, metric or metrics, MODEL)
        if not grid.values:
            if sheet:
                note(f"no figures for the table {name}")
            continue
        heading = {"md": f"## {name}\n\n", "html": f"<h2>{name}</h2>\n", "csv": ""}[format]
        texts.append(heading + as_text(grid, format))
    if not texts:
        raise UsageError("there are no figures for any table; name a run with `ok` records")
    if format == "csv" and len(texts) > 1:
        names = ", ".join(sheet or SHEETS)
        raise UsageError(f"a CSV file has one table; choose one of {names} with --sheet")
    text = "\n".join(texts)
    if output is None:
        print_plain(text, end="")
        return 0
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}; name another file") from error
    print_plain(str(output))
    return 0
