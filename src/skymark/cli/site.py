"""`skymark site`: static pages of many runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from skymark.cli.caller import note, print_plain
from skymark.cli.parameters import DIFFERENCE


def site(
    directory: Annotated[Path, Parameter(help="A directory of runs, such as results, or a run.")],
    /,
    *directories: Annotated[Path, Parameter(help="More of them.")],
    output: Annotated[Path, Parameter(help="Directory of the pages.")],
    practical: Annotated[
        float,
        DIFFERENCE,
        Parameter(help="Smallest relative difference that a history counts; 0.05 is 5 %."),
    ] = 0.05,
) -> int:
    """Write pages of many runs that need neither a server nor a network.

    The index has a line per run; behind it are each run's report and, where several runs are of
    one kind of machine, the history of each cell. A run that cannot be read is named there.

    Exit status: 0 the pages were written, 1 some run cannot be read, 2 nothing was written.
    """
    from skymark.report.site import write_site

    written = write_site([directory, *directories], output, practical)
    for problem in written.problems:
        note(f"left out: {problem}")
    note(f"runs: {written.runs}, histories: {written.histories}; open in a browser:")
    print_plain(str(written.index))
    return 1 if written.problems else 0
