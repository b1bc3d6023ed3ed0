"""Commands on runs on disk: `report`, `compare`, `export`, `history` and `site`."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

import skymark
from skymark.cli.caller import note, print_json, print_plain, say
from skymark.cli.parameters import DIFFERENCE, DIRECTORY, FILE, SECONDS, Several
from skymark.cli.tables import Json, stdout_console
from skymark.execute.project_file import results_directory
from skymark.model.errors import SkymarkError, UsageError
from skymark.model.record import Status
from skymark.model.sizes import count_of
from skymark.resources import install_line, load_object
from skymark.rundir.newest import newest_run
from skymark.rundir.reader import Run, open_run
from skymark.store.kinds import FINISH_S
from skymark.suite.registry import suite_named

PAGE = "report.html"
WRITERS = {"csv": "write_csv", "parquet": "write_parquet"}

Format = Annotated[Literal["table", "md"], Parameter(help="md: Markdown for GitHub.")]
MoreRuns = Annotated[Path, Parameter(help="More runs or directories of runs.")]
Practical = Annotated[
    float,
    DIFFERENCE,
    Parameter(help="Smallest relative difference that counts; 0.05 is 5 %."),
]


def require_one_format(format: str, *, json: bool) -> None:
    """Refuse two formats at once.

    Raises:
        UsageError: JSON is wanted as Markdown.
    """
    if json and format != "table":
        raise UsageError(f"--json and --format {format} exclude each other; give only one")


def report(
    directory: Annotated[
        Path | None, Parameter(help="The run's directory. [default: the newest run in results]")
    ] = None,
    /,
    *,
    open_page: Annotated[
        bool, Parameter(name="--open", help="Open report.html in your browser.")
    ] = False,
    figures: Annotated[
        Path | None,
        DIRECTORY,
        Parameter(
            help="Write figures into this directory as SVG and PNG: rates, waits, speed against "
            "price."
        ),
    ] = None,
    format: Format = "table",
    wide: Annotated[bool, Parameter(help="Print all columns, in lines of any length.")] = False,
    json: Json = False,
) -> int:
    """Show a run as a table, and write its report.html.

    Examples:
      skymark report --open
      skymark report results/RUN-ID --format md
    """
    require_one_format(format, json=json)
    run = open_run(directory or newest_run(results_directory()))
    if format == "md":
        from skymark.report.markdown import run_markdown

        print_plain(run_markdown(run), end="")
    else:
        show(run, json=json, wide=wide)
    note(write_page(run))
    if open_page and not webbrowser.open((run.directory / PAGE).absolute().as_uri()):
        say(f"no browser opens here; the page is {run.directory / PAGE}")
    if figures is not None:
        from skymark.report.chart import write_figures

        written = write_figures(run, figures)
        note(f"{count_of(len(written), 'figure')} in {figures}")
    return 0


def show(run: Run, *, json: bool, wide: bool = False) -> None:
    """Print a run on standard output."""
    from skymark.report.terminal import print_report
    from skymark.report.verdicts import RunReport

    if json:
        print_json(RunReport.of(run).model_dump_json(indent=1))
    else:
        print_report(run, stdout_console(), wide=wide)


def write_page(run: Run) -> str:
    """Write a run's report.html, and return a line that says where it is or what is missing."""
    if find_spec("jinja2") is None:
        return f"no report.html: it needs jinja2, run: {install_line('report')}"
    from skymark.report.html import write_html

    path = run.directory / PAGE
    write_html(run, path)
    return f"report in {path}"


def note_page(run: Run) -> bool:
    """Write a run's page and say where it is; returns whether it could be written."""
    try:
        page, written = write_page(run), True
    except SkymarkError as error:  # the results are safe all the same
        page, written = str(error), False
    note(f"results in {run.directory}; {page}")
    return written


def compare(
    before: Annotated[
        Path,
        Parameter(help="The earlier run: a directory, or a JSON file of pytest-benchmark."),
    ],
    after: Annotated[Path, Parameter(help="The later run: a directory or such a file.")],
    /,
    *,
    across: Annotated[
        tuple[Literal["hardware", "versions", "cells"], ...],
        Several,
        Parameter(help="A difference between the runs that you want to compare."),
    ] = (),
    practical: Annotated[
        float | None,
        DIFFERENCE,
        Parameter(
            help="Smallest relative difference that counts; 0.05 is 5 %. [default: 0.05; for the "
            "two runs of `run --against`, and for figures over elements, 0.02]"
        ),
    ] = None,
    gate: Annotated[
        bool,
        Parameter(
            help="Exit with status 3 if a cell got worse, if a cell of BEFORE was not measured, or "
            "if no cell was measured in both."
        ),
    ] = False,
    format: Format = "table",
    json: Json = False,
) -> int:
    """Compare two runs, cell by cell.

    Faster or slower needs a difference that is both statistical and practical, across rounds.
    Too little data is inconclusive. If all libraries changed alike on one machine, that is
    inconclusive too, and the output says so. Runs with other hardware, versions or cells need
    --across. The two runs of `run --against` are compared pair by
    pair.

    Examples:
      skymark compare results/BEFORE results/AFTER --gate
      skymark compare results/A results/B --across hardware --format md

    Exit status: 0 compared; 2 not comparable; 3 --gate failed.
    """
    require_one_format(format, json=json)
    found = skymark.compare(before, after, across=across, practical=practical)
    if json:
        print_json(found.to_json())
    elif format == "md":
        print_plain(found.to_markdown(), end="")
    else:
        from skymark.report.comparison_tables import print_comparison

        print_comparison(found, stdout_console())
    if gate:
        found.gate()
    return 0


def export(
    directory: Annotated[Path, Parameter(help="The run's directory, such as results/RUN-ID.")],
    /,
    *,
    to: Annotated[
        str,
        Parameter(
            metavar="FILE|ADDRESS|FORMAT",
            help="A file that ends in .csv or .parquet, a store (s3://BUCKET/PREFIX, wandb, "
            "file:///DIRECTORY), or another program's format: pytest-benchmark or a format of the "
            "suite.",
        ),
    ],
    output: Annotated[
        Path | None,
        DIRECTORY,
        Parameter(help="Directory for the files of another program's format."),
    ] = None,
    wait: Annotated[
        float, SECONDS, Parameter(help="Seconds to wait for a slow or absent store.")
    ] = FINISH_S,
    json: Json = False,
) -> int:
    """Write a run as CSV, Parquet and the like, or into a store.

    Files that the store has are compared, not sent again, so this also completes an earlier
    upload. Damaged files are not sent. A run of another plan in the store is never replaced.

    Examples:
      skymark export results/RUN-ID --to figures.csv
      skymark export results/RUN-ID --to s3://BUCKET/PREFIX

    Exit status: 0 all is written (a store's files were read back and compared); 1 a store lacks
    something; 2 nothing was written.
    """
    from skymark.plain_files import named_by_user
    from skymark.report import sheet
    from skymark.report.pytest_benchmark import FORMAT
    from skymark.store.kinds import is_address, known_addresses

    if is_address(to):
        return _store(directory, to, wait, json=json)
    run = open_run(directory)
    if to == FORMAT:
        return _as_benchmarks(run, output, json=json)
    formats = suite_named(run.manifest.plan.suite).formats
    if to in formats:
        return _as_format(run, formats[to], to, output, json=json)
    if output is not None:
        raise UsageError(
            f"--output is for another program's format, and --to {to} is a place; leave it out"
        )
    kind = Path(to).suffix.removeprefix(".")
    if kind not in WRITERS:
        others = f" or {' or '.join(formats)}" if formats else ""
        raise UsageError(
            f"--to {to} must end in .csv or .parquet, be {FORMAT}{others}, or name a store: "
            f"{known_addresses()}"
        )
    with named_by_user(Path(to)):
        getattr(sheet, WRITERS[kind])(run, Path(to))
    _print_written([Path(to)], json=json)
    return 0


def _print_written(paths: Sequence[Path], *, json: bool, left_out: int = 0) -> None:
    """Print the files of an export, and the number of cells that have no record in them."""
    if json:
        files = [str(path) for path in paths]
        print_json({"files": files, "cells_left_out": left_out})
        return
    for path in paths:
        print_plain(str(path))
    if left_out:
        say(f"left out: {count_of(left_out, 'cell')} without an `ok` record")


def _as_benchmarks(run: Run, output: Path | None, *, json: bool) -> int:
    """Write a run's `ok` records as a file of pytest-benchmark."""
    from skymark.plain_files import named_by_user, write_whole
    from skymark.report.pytest_benchmark import FORMAT, benchmark_file

    _require_measured(run)
    path = (output or run.directory / FORMAT) / f"{run.manifest.run_id}.json"
    with named_by_user(path, "a directory"):
        write_whole(path, benchmark_file(run).encode(), durable=False)
    _print_written([path], json=json, left_out=_left_out(run, run.counts[Status.OK]))
    return 0


def _as_format(run: Run, reference: str, name: str, output: Path | None, *, json: bool) -> int:
    """Write a run's `ok` records in another program's format."""
    _require_measured(run)
    written = load_object(reference)().write(run.records, output or run.directory / name)
    _print_written(written, json=json, left_out=_left_out(run, len(written)))
    return 0


def _require_measured(run: Run) -> None:
    """Refuse to write an empty file of figures.

    Raises:
        UsageError: no cell was measured.
    """
    if Status.OK not in run.counts:
        raise UsageError(
            f"{run.directory} has no `ok` record to export; `skymark report` shows the reasons"
        )


def _left_out(run: Run, written: int) -> int:
    """Return the number of planned cells that an export does not have."""
    return len(run.records) + len(run.missing) - written


def _store(directory: Path, address: str, wait_s: float, *, json: bool) -> int:
    """Put a run that is on disk into a store."""
    from skymark.cli.stores import say_what_was_stored
    from skymark.store.storing import not_sent, store_run

    stored, damaged = store_run(directory, address, wait_s, note, say)
    say_what_was_stored([stored], directory)
    if json:
        print_json({**asdict(stored), "not_sent": damaged})
    if damaged:
        say(not_sent(damaged, directory))
    return 0 if stored.ok and not damaged else 1


def history(
    directory: Annotated[
        Path,
        Parameter(
            help="A directory of runs, such as results, a run, or a JSON file of pytest-benchmark."
        ),
    ],
    /,
    *directories: MoreRuns,
    practical: Practical = 0.05,
    page: Annotated[
        Path | None, FILE, Parameter(help="Write an HTML file with a chart of each cell.")
    ] = None,
    json: Json = False,
) -> int:
    """Detect performance changes across runs.

    Finds sudden steps and slow drifts of each cell, over runs on one kind of machine. Leaves out
    runs that measured a cell with other settings than the newest run.

    Examples:
      skymark history results
      skymark history results --page history.html

    Exit status: 0 shown; 2 the runs cannot be compared.
    """
    from skymark.report.history import history_of, print_history, runs_in

    runs, problems = runs_in([directory, *directories])
    for problem in problems:
        say(f"left out: {problem}")
    found = history_of(runs, practical)
    if json:
        print_json(found.model_dump_json(indent=1))
    else:
        print_history(found, stdout_console())
    if page is not None:
        from skymark.report.history import write_history

        write_history(found, page)
        note(f"page in {page}")
    return 0


def site(
    directory: Annotated[Path, Parameter(help="A directory of runs, such as results, or a run.")],
    /,
    *directories: MoreRuns,
    output: Annotated[Path, DIRECTORY, Parameter(help="Directory of the pages.")],
    practical: Practical = 0.05,
    json: Json = False,
) -> int:
    """Write static web pages about many runs.

    The index has a line per run, which leads to its report. Several runs on one kind of machine
    also get a history of each cell. The pages need no server and no network.

    Examples:
      skymark site results --output pages
      skymark site results ../nightly --output pages

    Exit status: 0 the pages are written; 1 some run cannot be read (the index names it); 2
    nothing was written.
    """
    from skymark.report.site import write_site

    written = write_site([directory, *directories], output, practical)
    for problem in written.problems:
        note(f"left out: {problem}")
    if json:
        print_json({**asdict(written), "index": str(written.index)})
    else:
        note(f"runs: {written.runs}, histories: {written.histories}; open in a browser:")
        print_plain(str(written.index))
    return 1 if written.problems else 0
