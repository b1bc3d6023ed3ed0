"""Tables of what could be run: plans, scenarios, adapters, profiles."""

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
    low, high = expected_seconds(plan)
    stdout_console().print(
        f"\n{len(plan.runnable)} cells of {len(plan.groups())} adapters to measure, "
        f"{len(plan.cells) - len(plan.runnable)} not; {rounds} rounds each "
        f"(effort {effort.name}); about {low / 60:.0f} to {high / 60:.0f} minutes "
        "once environments and data are made; costs nothing on this machine",
        highlight=False,
        soft_wrap=True,
    )


def expected_seconds(plan: Plan) -> tuple[float, float]:
    """Return a low and a high guess of a plan's duration, from its bounds alone.

    Each cell-round has one warm-up epoch and at least `min_seconds` of measuring, and each
    adapter's process takes a second or more to start.
    """
    effort, cells, groups = plan.effort, len(plan.runnable), len(plan.groups())
    low = effort.min_rounds * (cells * 2 * effort.min_seconds + groups)
    high = effort.max_rounds * (cells * (2 * effort.min_seconds + 1.0) + groups * 10)
    return low, high
