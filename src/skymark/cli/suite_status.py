"""`skymark SUITE status` and `table`: how far a run is, and figures of runs as tables."""

from __future__ import annotations

import json as json_module
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

from cyclopts import Parameter

from skymark.cli.caller import note, print_json, print_plain, say
from skymark.cli.parameters import Several
from skymark.cli.suite_plan import aligned
from skymark.cli.tables import Json
from skymark.execute.planner import read_plan
from skymark.model.errors import DataError, UnknownNameError, UsageError
from skymark.model.manifest import Manifest
from skymark.model.record import Cell, Setting, Status
from skymark.references import load_object
from skymark.report.export import Reading, SheetFormat, as_text, grid_of
from skymark.report.progress import CellState, State, counted, states_of
from skymark.rundir.layout import MANIFEST
from skymark.rundir.reader import Heads, RecordHead, Run, open_heads, open_run
from skymark.rundir.writer_locks import is_being_written
from skymark.suite.commands import Sheet, SuiteCommands
from skymark.suite.registry import suite_named

BY: dict[str, Callable[[Cell], str]] = {
    "adapter": lambda cell: cell.adapter,
    "scenario": lambda cell: cell.label,
}
Place = Annotated[
    str,
    Parameter(help="A run's directory, or a stored run: s3://BUCKET/PREFIX/RUN-ID, wandb://…"),
]


def status(
    *places: Place,
    declared: SuiteCommands,
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
    states = states_at(places, declared, plan)
    wanted = {State(name.replace("-", " ")) for name in only}
    if json:
        rows = [one for one in states if not wanted or one.state in wanted]
        print_json(json_module.dumps([_row(one) for one in rows], indent=1))
    elif wanted:
        listed = [
            [one.state.value, one.cell.adapter, one.cell.label, one.message]
            for one in states
            if one.state in wanted
        ]
        print_plain("\n".join(aligned(listed)) if listed else "none")
    else:
        for key, words in (("adapter", declared.adapters), ("scenario", declared.scenarios)):
            print_plain("\n".join(count_lines(states, words.one, BY[key])), end="\n\n")
        print_plain(totals(states))
    return 0


def states_at(
    places: Sequence[str], declared: SuiteCommands, plan_file: Path | None
) -> list[CellState]:
    """Return the state of each planned pair over all runs.

    Raises:
        UsageError: a place is no run of the suite's, or the file is no plan of it.
    """
    alone = len(places) == 1 and plan_file is None
    planned: dict[str, Cell] = {}
    if plan_file is not None:
        plan = read_plan(plan_file)
        if plan.suite != declared.suite:
            raise UsageError(f"{plan_file} is a plan of the suite {plan.suite}")
        planned = {one.cell.hash: one.cell for one in plan.cells}
    records: dict[str, RecordHead] = {}
    running: set[str] = set()
    for place in places:
        with directory_of(place) as directory:
            run = open_heads(directory)
            require_suite(run.manifest, directory, declared)
            for problem in run.problems:
                say(problem)
            if alone:  # ids tell its cells apart, and hashes of ten thousand take their time
                return states_of(run.manifest.cells, run.by_id, running_in(run))
            if plan_file is None:
                planned |= {cell.hash: cell for cell in run.manifest.cells.values()}
            found = {head.cell_hash: head for head in run.by_id.values()}
            records |= {key: one for key, one in found.items() if is_better(one, records.get(key))}
            running |= running_in(run)
    return states_of(planned, records, running)


def is_better(record: RecordHead, other: RecordHead | None) -> bool:
    """Whether a record tells more than another of the same pair: a good one, or the later one."""
    if other is None or record.status is Status.OK:
        return True
    return other.status is not Status.OK and record.ended_at > other.ended_at


@contextmanager
def directory_of(place: str) -> Iterator[Path]:
    """Yield the directory of a run; of a stored one, with only its manifest and its records.

    Raises:
        UsageError: there is no run.
        StoreError: the store cannot be read.
    """
    from skymark.rundir.layout import MANIFEST
    from skymark.store.fetching import fetch
    from skymark.store.kinds import is_address, open_source

    if not is_address(place):
        yield Path(place)
        return
    with closing(open_source(place)) as source, TemporaryDirectory() as directory:
        try:
            fetch(
                source,
                Path(directory),
                only=lambda path: path == MANIFEST or path.startswith("records/"),
            )
        except FileNotFoundError as error:
            raise UsageError(str(error)) from error
        yield Path(directory)


def require_suite(manifest: Manifest, directory: Path, declared: SuiteCommands) -> None:
    """Refuse a run of another suite.

    Raises:
        UsageError: it is one.
    """
    if (suite := manifest.plan.suite) != declared.suite:
        raise UsageError(
            f"{directory} is a run of the suite {suite}; `skymark report {directory}` shows it"
        )


def running_in(run: Heads) -> set[str]:
    """Return the cell that this machine measures: of those without a record, the newest log's."""
    if not is_being_written(run.directory):
        return set()
    logs = {
        cell.id: log.stat().st_mtime_ns
        for cell in run.missing
        if (log := run.directory / "logs" / f"{cell.id}.log").is_file()
    }
    return {max(logs, key=lambda cell: logs[cell])} if logs else set()


def count_lines(states: Sequence[CellState], heading: str, key: Callable[[Cell], str]) -> list[str]:
    """Return a table with the numbers of pairs by state."""
    found = counted(states, key)
    shown = [state for state in State if any(numbers[state] for numbers in found.values())]
    rows = [[heading, *(state.value for state in shown)]]
    rows += [
        [name, *(str(numbers[state] or "") for state in shown)] for name, numbers in found.items()
    ]
    return aligned(rows)


def totals(states: Sequence[CellState]) -> str:
    """Return the numbers of the whole run in a line."""
    numbers = counted(states, lambda _: "")
    parts = [f"{numbers[''][state]} {state.value}" for state in State if numbers[""][state]]
    return f"{len(states)} pairs: {', '.join(parts)}"


def _row(one: CellState) -> dict[str, object]:
    cell = one.cell
    return {
        "id": cell.id,
        "adapter": cell.adapter,
        "scenario": cell.scenario,
        "variant": cell.variant,
        "axes": cell.axes,
        "state": one.state.value,
        "message": one.message or None,
    }


def table(
    *places: Annotated[
        str,
        Parameter(
            help="Runs' directories, stored runs, or files and directories of results that "
            "another program wrote."
        ),
    ],
    declared: SuiteCommands,
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
    """Show figures as tables with a row per adapter and a column per scenario.

    Figures of several runs stand in rows of their own. A mean is over all columns, and left out
    where one was not scored.
    """
    chosen = sheets_named(declared, sheet)
    readings = [one for place in places or ("results",) for one in readings_at(place, declared)]
    declaration = suite_named(declared.suite).declaration
    texts = []
    for one in chosen:
        grid = grid_of(
            readings, declaration, one.variants, metric or one.metrics, declared.adapters.one
        )
        if not grid.values:
            if sheet:
                note(f"no figures for the table {one.name}")
            continue
        heading = {"md": f"## {one.name}\n\n", "html": f"<h2>{one.name}</h2>\n", "csv": ""}[format]
        texts.append(heading + as_text(grid, format))
    if not texts:
        raise UsageError("there are no figures for any table; name a run with `ok` records")
    if format == "csv" and len(texts) > 1:
        names = ", ".join(one.name for one in chosen)
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


def sheets_named(declared: SuiteCommands, names: Sequence[str]) -> tuple[Sheet, ...]:
    """Return a suite's tables by name, or all.

    Raises:
        UnknownNameError: there is no such table.
    """
    by_name = {one.name: one for one in declared.sheets}
    for name in names:
        if name not in by_name:
            raise UnknownNameError("table", name, by_name)
    return tuple(by_name[name] for name in names) if names else declared.sheets


def readings_at(place: str, declared: SuiteCommands) -> list[Reading]:
    """Return the figures at a place: of a run, of all runs in a directory, or of other programs.

    Raises:
        UsageError: there is nothing to read.
    """
    path = Path(place)
    if path.is_file():
        return [foreign_reading(path, declared)]
    if path.is_dir() and not (path / MANIFEST).exists():
        runs = sorted(one.parent for one in path.glob(f"*/{MANIFEST}"))
        if runs:
            return [
                one
                for run in runs
                if (found := open_run(run)).manifest.plan.suite == declared.suite
                for one in of_run(found)
            ]
        return [foreign_reading(file, declared) for file in sorted(path.glob("*.json"))]
    with directory_of(place) as directory:
        run = open_run(directory)
        require_suite(run.manifest, directory, declared)
        return of_run(run)


def of_run(run: Run) -> list[Reading]:
    """Return the figures of a run's `ok` records."""
    return [
        Reading(
            source=run.manifest.run_id,
            adapter=record.cell.adapter,
            scenario=record.cell.scenario + _axes(record.cell.axes),
            variant=record.cell.variant,
            metrics={name: figure.value for name, figure in record.metrics.items()},
        )
        for record in run.records
        if record.status is Status.OK
    ]


def foreign_reading(file: Path, declared: SuiteCommands) -> Reading:
    """Return the figures of a file that another program wrote.

    Raises:
        DataError: it is in none of the formats that the suite reads.
    """
    problems = []
    for name, reference in suite_named(declared.suite).formats.items():
        try:
            found = load_object(reference)().read(file)
        except DataError as error:
            problems.append(f"{name}: {error}")
            continue
        return Reading(
            source=name,
            adapter=found.adapter,
            scenario=found.scenario + _axes(found.axes),
            variant=found.variant,
            metrics=found.metrics,
        )
    raise DataError(f"{file} is in no format that is read here: {'; '.join(problems)}")


def _axes(axes: Mapping[str, Setting]) -> str:
    return "".join(f" {name}={value}" for name, value in sorted(axes.items()))
