"""Plain tables on standard output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Column, Table

from skymark.cli.console import PlainConsole
from skymark.execute.duration import RunTime
from skymark.model.plan import Plan
from skymark.model.sizes import count_of
from skymark.report.text import duration

# A table cut to the terminal would hide what scripts look for; pipes get wide lines instead.
PIPED_WIDTH = 160

Json = Annotated[bool, Parameter(help="Print the result as JSON.")]


def stdout_console() -> Console:
    """Return a console on standard output, wide where that is no terminal."""
    console = PlainConsole()
    return console if console.is_terminal else PlainConsole(width=PIPED_WIDTH)


def print_rows(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a plain table on standard output."""
    # A name that is cut short is none.
    columns = [Column(one, no_wrap=place == 0) for place, one in enumerate(headers)]
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    stdout_console().print(table)


def short_time(plan: Plan, time: RunTime) -> str | None:
    """Return a warning where the least rounds are expected to take longer than the run's time."""
    if plan.allotment is None or time.least_rounds.expected_s <= plan.allotment.time_s:
        return None
    return (
        f"the time of {duration(plan.allotment.time_s)} may be short: each cell needs "
        f"{count_of(plan.bounds.min_rounds, 'round')}, which take about "
        f"{duration(time.least_rounds.expected_s)}; some cells may get fewer"
    )
