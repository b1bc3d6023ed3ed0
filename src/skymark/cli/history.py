"""`skymark history`: cells over many runs of one kind of machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from skymark.cli.caller import note, print_json, say
from skymark.cli.parameters import DIFFERENCE
from skymark.cli.tables import Json, stdout_console


def history(
    directory: Annotated[
        Path,
        Parameter(
            help="A directory of runs, such as results, a run, or a JSON file of pytest-benchmark."
        ),
    ],
    /,
    *directories: Annotated[Path, Parameter(help="More of them.")],
    practical: Annotated[
        float,
        DIFFERENCE,
        Parameter(help="Smallest relative difference that counts; 0.05 is 5 %."),
    ] = 0.05,
    page: Annotated[
        Path | None, Parameter(help="An HTML file to write, with a line per cell.")
    ] = None,
    json: Json = False,
) -> int:
    """Show where the level of each cell changed over runs, in a step or by and by.

    The runs are of one kind of machine. Each gives one value per cell; runs that measured a cell
    with other settings than the newest did are left out.

    Exit status: 0 they were shown, 2 they cannot be.
    """
    from skymark.report.history import history_of, runs_in
    from skymark.report.history_table import print_history

    runs, problems = runs_in([directory, *directories])
    for problem in problems:
        say(f"left out: {problem}")
    found = history_of(runs, practical)
    if json:
        print_json(found.model_dump_json(indent=1))
    else:
        print_history(found, stdout_console())
    if page is not None:
        from skymark.report.history_page import write_history

        write_history(found, page)
        note(f"page in {page}")
    return 0
