"""Score CLIP models on data sets: plan, run, status and tables of models × data sets.

How good are these CLIP models? clip run
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
from skymark.cli.plan import write_plan_file
from skymark.cli.rented_options import DEFAULT_ON, OnOptions
from skymark.cli.run import DEFAULT_HOW, RunOptions, measure
from skymark.cli.submit import submit
from skymark.cli.tables import Json
from skymark.execute.planner import load_profile, read_plan
from skymark.execute.project_file import results_directory
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.record import Cell
from skymark.model.requests import Work
from skymark.model.sizes import count_of
from skymark.report.progress import CellPhase, CellState, counted, states_at
from skymark.report.sheet import Grid, Reading, SheetFormat, as_text, grid_of, readings_at
from skymark.report.text import about
from skymark.rundir.newest import newest_run
from skymark.suite.contract import Suite
from skymark.suite.registry import suite_named
from skymark.suites.clip.datacomp import SHEET as DATACOMP
from skymark.suites.clip.datacomp import datacomp_readings, datacomp_sets
from skymark.suites.clip.metrics import SCORE
from skymark.suites.clip.names import SUITE
from skymark.suites.clip.plan_table import (
    aligned,
    as_json,
    pair_lines,
    precision_of,
    price_of,
    share_lines,
    shares_of,
    summary,
    whole_time,
)

MODEL, DATA_SET = "model", "data set"

if TYPE_CHECKING:
    OwnOptions = dict[str, Any]
else:
    OwnOptions = typed_options(declared_options([suite_named(SUITE)]))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ClipChoice(PlanOptions):
    """The options that say which models to score on which data sets."""

    profile: Annotated[
        str,
        Parameter(
            group=WHAT,
            metavar="NAME",
            help="Profile with the defaults for all options: a name, or a .toml file.",
        ),
    ] = "clip"
    adapters: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            name="--models",
            group=WHAT,
            metavar="NAME...",
            help="Models: ARCHITECTURE:TAG of open_clip, ARCHITECTURE:./FILE.pt, local-dir:FOLDER, "
            "hf-hub:OWNER/NAME, transformers:FOLDER, ./FILE.py:FUNCTION, a glob, openai, a .txt "
            "file of names, or all.",
        ),
    ] = ()
    scenarios: Annotated[
        tuple[str, ...],
        Several,
        Parameter(
            name="--datasets",
            group=WHAT,
            metavar="NAME...",
            help="Data sets: public names such as wds/vtab/cifar10, your own directory (./my_set), "
            "globs such as `wds/vtab/*`, collections (vtab, vtab+, datacomp, retrieval, "
            "imagenet_robustness, sugar_crepe), a .txt file with a name per line, or all.",
        ),
    ] = ()
    own: Annotated[OwnOptions, Parameter(name="*")] = field(default_factory=dict)

    def work(self) -> Work:
        """Return the request that these options make.

        Raises:
            UsageError: the profile is another suite's, or an option has no such value.
        """
        suite = load_profile(self.profile).suite
        if suite != SUITE:
            raise UsageError(
                f"the profile {self.profile} is of the suite {suite}; give one of {SUITE}, such as "
                f"{ON_A_GPU}"
            )
        return super().work()

    def in_precision(self, precision: str) -> ClipChoice:
        """Return the same work in another precision."""
        return replace(self, own={**self.own, "precision": precision})


DEFAULT_WORK = ClipChoice()
ON_A_GPU = "clip_gpu"
"""Profile of runs on rented GPUs, by default."""
LONG_S = 3600.0
"""Time on a CPU from which on a plan tells the time on a GPU, too."""
COMMANDS = App(name=SUITE, help=__doc__)


@COMMANDS.command
def plan(  # its parameters are the options of a command
    options: ClipChoice = DEFAULT_WORK,
    *,
    pairs: Annotated[
        bool, Parameter(group=WHERE, help="List every pair of model and data set.")
    ] = False,
    hourly_price: Annotated[
        float | None,
        USD,
        Parameter(group=WHERE, help="Price of the machine in USD per hour."),
    ] = None,
    infra: Annotated[
        str | None,
        Parameter(
            group=WHERE,
            metavar="PLACE",
            help="Take the price from SkyPilot's catalogue for this place, such as lambda, vast or "
            "gcp/us-west1. `skymark cost PROFILE` adds set-up and end.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        Parameter(
            group=WHERE,
            metavar="FILE",
            help="Write the plan into this file, for `skymark run --plan`.",
        ),
    ] = None,
    json: Annotated[Json, Parameter(group=WHERE)] = False,
    split: Split = None,
    explain: Explain = False,
    total_cpus: TotalCpus = None,
    total_memory: TotalMemory = None,
) -> int:
    """Show the pairs that `run` would measure, their groups, memory, time and price.

    Times come from earlier runs of the same pairs here, else they are guesses. --split shows each
    worker's part.

    Examples:
      skymark clip plan --models 'ViT-B-*:laion2b*' --datasets all
      skymark clip plan --models all --datasets all --output plan.json
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
        print_json(as_json(planned, shares, price, pairs=pairs))
    else:
        print_plain("\n".join(pair_lines(planned) if pairs else share_lines(shares, price)))
    for text in planned.sentences:
        note(text)
    note(summary(planned, shares, price))
    if planned.platform == "gpu":
        other = "fp32" if precision_of(planned) != "fp32" else "amp"
        time = whole_time(shares_of(options.in_precision(other).plan()))
        note(
            f"with --precision {other}: {about(time)}; figures differ in the third or fourth digit"
        )
    elif options.profile == DEFAULT_WORK.profile and whole_time(shares).expected_s > LONG_S:
        time = whole_time(shares_of(replace(options, profile=ON_A_GPU).plan()))
        note(
            f"on one GPU: {about(time)}; --profile {ON_A_GPU} plans for it, and --infra lambda "
            "(or vast, gcp) adds its price"
        )
    return 0


@COMMANDS.command
def run(
    options: ClipChoice = DEFAULT_WORK, how: RunOptions = DEFAULT_HOW, on: OnOptions = DEFAULT_ON
) -> int:
    """Score models on data sets, here or on a machine that is rented for it.

    After Ctrl-C the same command with --resume continues.

    Examples:
      skymark clip run --models ViT-B-32:laion2b_s34b_b79k --datasets ./my_set
      skymark clip run --models openai --datasets vtab+ --on H100:8 --max-cost 100

    Exit status: 0 all is well; 1 a pair failed or is invalid, no pair was measured, or a store
    lacks something; 2 nothing was started; 130 interrupted.
    """
    if on.is_asked_for:
        from skymark.cli.launch import run_on

        usual = options.profile == DEFAULT_WORK.profile
        options = replace(options, profile=ON_A_GPU) if usual else options
        return run_on(options.work(), on, how)
    return measure(options.plan(), how)


COMMANDS.command(with_options(submit, ClipChoice), name="submit")

COUNTED: tuple[tuple[str, Callable[[Cell], str]], ...] = (
    (MODEL, lambda cell: cell.adapter),
    (DATA_SET, lambda cell: cell.label),
)
"""The heading of each table of `status`, and its rows."""


@COMMANDS.command
def status(
    *places: Annotated[
        str,
        Parameter(
            help="A run's directory, or a stored run: s3://BUCKET/PREFIX/RUN-ID, wandb://… "
            "[default: the newest run here]"
        ),
    ],
    plan: Annotated[
        Path | None,
        Parameter(
            metavar="FILE", help="A file of `plan --output`: count its pairs, wherever they are."
        ),
    ] = None,
    only: Annotated[
        tuple[Literal["done", "running", "failed", "left-out", "pending"], ...],
        Several,
        Parameter(help="List the pairs in these states, in place of counts."),
    ] = (),
    json: Json = False,
) -> int:
    """Count the done, running, failed and pending pairs of runs.

    Pending pairs are in the plan and have no record. Several runs count as one, such as the runs
    of machines that share a plan.

    Examples:
      skymark clip status results/RUN-ID
      skymark clip status s3://BUCKET/PREFIX/RUN-ID --only failed
    """
    if not places and plan is None:
        places = (str(newest_run(results_directory(), SUITE)),)
    planned = None if plan is None else read_plan(plan)
    states = states_at(places, suite_named(SUITE), planned, say)
    wanted = {CellPhase(name.replace("-", " ")) for name in only}
    chosen = [one for one in states if not wanted or one.state in wanted]
    if json:
        print_json([_state(one) for one in chosen])
    elif wanted:
        rows = [[one.state.value, one.cell.adapter, one.cell.label, one.message] for one in chosen]
        print_plain("\n".join(aligned(rows)) if rows else "none")
    else:
        for heading, key in COUNTED:
            print_plain("\n".join(_count_lines(states, heading, key)), end="\n\n")
        numbers = Counter(one.state for one in states)
        parts = [f"{numbers[state]} {state.value}" for state in CellPhase if numbers[state]]
        print_plain(f"{count_of(len(states), 'pair')}: {', '.join(parts)}")
    return 0


def _count_lines(
    states: Sequence[CellState], heading: str, key: Callable[[Cell], str]
) -> list[str]:
    """Return a table with the numbers of pairs by state."""
    by_name = counted(states, key)
    shown = [state for state in CellPhase if any(numbers[state] for numbers in by_name.values())]
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
    "association": (("image_association",), ("jaccard",)),
    "captioning": (("captioning",), ("CIDEr",)),
    DATACOMP: ((DATACOMP,), (SCORE,)),
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
        tuple[str, ...],
        Several,
        Parameter(metavar="NAME...", help="Only these tables. [default: all with figures]"),
    ] = (),
    metric: Annotated[
        tuple[str, ...],
        Several,
        Parameter(metavar="NAME...", help="Metrics to show, in place of a table's own."),
    ] = (),
    format: Annotated[
        SheetFormat, Parameter(help="csv has every digit; md and html are rounded.")
    ] = "md",
    flips: Annotated[
        tuple[str, str] | None,
        Parameter(
            metavar="MODEL MODEL",
            help="Count the images that one of two models has right and the other wrong; with "
            "--output FILE.html, a page with thumbnails.",
        ),
    ] = None,
    output: Annotated[
        Path | None, Parameter(metavar="FILE", help="File to write. [default: standard output]")
    ] = None,
    json: Json = False,
) -> int:
    """Show figures as tables with a row per model and a column per data set.

    Each run has rows of its own. A mean is over all columns; it is missing if a column is. Brackets
    hold the 95 % interval over images.

    Examples:
      skymark clip table results/RUN-ID
      skymark clip table results/RUN-ID --flips MODEL MODEL --output flips.html
    """
    if flips is not None:
        if sheet or metric or format != "md" or json:
            raise UsageError("--flips takes runs and --output only; leave other options out")
        return _show_flips(places or _here(), flips, output)
    if json and (format != "md" or output is not None):
        raise UsageError("--json excludes --format and --output; give only one")
    for name in sheet:
        if name not in SHEETS:
            raise UnknownNameError("table", name, SHEETS)
    suite = suite_named(SUITE)
    tables: dict[str, list[dict[str, object]]] = {}
    readings = [one for place in places or _here() for one in readings_at(place, suite)]
    known = {name for one in readings for name in one.metrics}
    unknown = [name for name in metric if name not in known]
    if known and unknown:
        raise UnknownNameError("metric", unknown[0], known)
    texts = []
    for name in sheet or SHEETS:
        grid = _grid(name, readings, suite, metric, is_chosen=bool(sheet))
        if not grid.values:
            if sheet:
                note(f"no figures for the table {name}")
            continue
        tables[name] = [dict(zip(grid.head, row, strict=True)) for row in grid.rows()]
        heading = {"md": f"## {name}\n\n", "html": f"<h2>{name}</h2>\n", "csv": ""}[format]
        texts.append(heading + as_text(grid, format))
    if not texts:
        raise UsageError("there are no figures for any table; name a run with `ok` records")
    if format == "csv" and len(texts) > 1:
        names = ", ".join(tables)
        raise UsageError(f"a CSV file has one table; choose one of {names} with --sheet")
    text = "\n".join(texts)
    if json:
        print_json(tables)
        return 0
    return _print_or_write(text, output)


def _here() -> tuple[str]:
    """Return the directory of the runs here.

    Raises:
        UsageError: it has none.
    """
    home = results_directory()
    newest_run(home, SUITE)
    return (str(home),)


def _grid(
    name: str, readings: Sequence[Reading], suite: Suite, metric: Sequence[str], *, is_chosen: bool
) -> Grid:
    """Return the grid of a table; DataComp's has all its columns, or is empty unless chosen."""
    tasks, metrics = SHEETS[name]
    declaration = suite.declaration
    if name != DATACOMP:
        return grid_of(readings, declaration, tasks, metric or metrics, MODEL)
    found = datacomp_readings(readings)
    scored = {one.scenario for one in found}
    missing = [one for one in datacomp_sets() if one not in scored]
    if missing and not is_chosen:
        found = []
    elif missing and found:
        note(
            f"DataComp's mean needs all {len(datacomp_sets())} data sets; not scored: "
            f"{', '.join(missing)} (retrieval needs --recall-k 1)"
        )
    return grid_of(found, declaration, tasks, metrics, MODEL, datacomp_sets() if found else ())


def _show_flips(places: Sequence[str], models: tuple[str, str], output: Path | None) -> int:
    from skymark.suites.clip.flips import flips_at, page_of, sentence_of

    found = flips_at(places, *models)
    lines = [f"{one.record.cell.label}: {sentence_of(one, *models)}" for one in found]
    if output is None:
        print_plain("\n".join(lines))
        return 0
    for line in lines:
        note(line)
    return _print_or_write(page_of(found, *models), output)


def _print_or_write(text: str, output: Path | None) -> int:
    """Print a text, or write it into a file and print its name.

    Raises:
        UsageError: the file cannot be written.
    """
    if output is None:
        print_plain(text, end="")
        return 0
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}; name another file") from error
    print_plain(str(output))
    return 0
