"""Plain tables on standard output, and the table of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from skymark.model.plan import Plan

# A table cut to the terminal would hide what scripts look for; pipes get wide lines instead.
PIPED_WIDTH = 160

Json = Annotated[bool, Parameter(help="Print JSON instead of a table.")]


def stdout_console() -> Console:
    """Return a console on standard output, wide where that is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=PIPED_WIDTH)


def print_rows(headers: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> None:
    """Print a plain table on standard output."""
    table = Table(*headers, title=title or None, box=None, title_justify="left", pad_edge=False)
    for row in rows:
        table.add_row(*row)
    stdout_console().print(table)


def print_plan(plan: Plan) -> None:
    """Print a plan: one row per scenario, adapters that run, and those that do not with why."""
    effort = plan.effort
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
    rounds = (
        f"{effort.min_rounds}"
        if effort.min_rounds == effort.max_rounds
        else f"{effort.min_rounds} to {effort.max_rounds}"
    )
    low_s, high_s = expected_seconds(plan)
    adapters = {planned.cell.adapter for planned in plan.runnable}
    stdout_console().print(
        f"\n{len(plan.runnable)} cells of {len(adapters)} adapters to measure, "
        f"{len(plan.cells) - len(plan.runnable)} not; {rounds} rounds each "
        f"(effort {effort.name}); about {low_s / 60:.0f} to {high_s / 60:.0f} minutes "
        "once venvs and data are made; costs nothing on this machine",
        highlight=False,
        soft_wrap=True,
    )


def expected_seconds(plan: Plan) -> tuple[float, float]:
    """Return a low and a high guess of a plan's duration, from what its suite guesses of a round.

    Each group's process takes one second to ten to start, in each round.
    """
    effort, groups = plan.effort, len({planned.group for planned in plan.runnable})
    guesses = [planned.guess for planned in plan.runnable if planned.guess is not None]
    unknown_s = effort.cell_timeout_s * (len(plan.runnable) - len(guesses))
    low_s = effort.min_rounds * (sum(one.low_s for one in guesses) + groups)
    expected_s = sum(one.expected_s for one in guesses) + unknown_s
    return low_s, effort.max_rounds * (expected_s + groups * 10)
