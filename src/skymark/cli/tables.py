"""Plain tables on standard output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Column, Table

from skymark.api import expected_time
from skymark.cli.caller import note, print_plain
from skymark.cli.console import PlainConsole
from skymark.execute.duration import RunTime
from skymark.execute.planner import lacks_here
from skymark.execute.project_file import results_directory
from skymark.model.plan import Plan
from skymark.model.sizes import count_of
from skymark.report.text import about, duration

if TYPE_CHECKING:
    from skymark.execute.revision import Revision

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


def short_time(plan: Plan, time: RunTime) -> str | None:
    """Return a warning where the least rounds are expected to take longer than the run's time."""
    if plan.allotment is None or time.least_rounds.expected_s <= plan.allotment.time_s:
        return None
    return (
        f"the time of {duration(plan.allotment.time_s)} may be short: each cell needs "
        f"{count_of(plan.bounds.min_rounds, 'round')}, which take about "
        f"{duration(time.least_rounds.expected_s)}; some cells may get fewer"
    )
