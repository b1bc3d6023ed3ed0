"""`skymark SUITE table`: figures of runs and of other programs as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from skymark.cli.caller import note, print_plain
from skymark.cli.parameters import Several
from skymark.cli.suite_status import directory_of, require_suite
from skymark.model.cell import Setting
from skymark.model.errors import DataError, UnknownNameError, UsageError
from skymark.model.record import Status
from skymark.references import load_object
from skymark.report.sheet import Reading, SheetFormat, as_text, grid_of
from skymark.run.layout import MANIFEST
from skymark.run.reader import Run, open_run
from skymark.suite.commands import Sheet, SuiteCommands
from skymark.suite.registry import suite_named


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
