"""A history as one HTML file: a line per cell, and a mark where its level changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skymark.report.environment import page_environment
from skymark.report.history import CellHistory, History
from skymark.report.text import writer
from skymark.whole_files import named_by_user, write_whole

HEIGHT = 40
ROOM = 4
"""Above the highest value and below the lowest, in the units of the height."""


@dataclass(frozen=True)
class Line:
    """A cell's line in a square of 100 by `HEIGHT`."""

    cell: CellHistory
    points: str
    changes: tuple[float, ...]
    """Where its level changed."""


def line_of(cell: CellHistory) -> Line:
    """Return the line of a cell: runs are equally far apart, the lowest value lies at the foot."""
    low, high = min(cell.values), max(cell.values)
    width, length = (high - low) or 1.0, max(len(cell.values) - 1, 1)
    span = HEIGHT - 2 * ROOM
    points = (
        f"{100 * place / length:.2f},{HEIGHT - ROOM - span * (value - low) / width:.2f}"
        for place, value in enumerate(cell.values)
    )
    starts = {change.run_id for change in cell.changes}
    marks = (place for place, run in enumerate(cell.run_ids) if run in starts)
    return Line(cell, " ".join(points), tuple(100 * (place - 0.5) / length for place in marks))


def write_history(history: History, path: Path, home: str | None = None) -> None:
    """Write the page of a history, whole or not at all.

    Args:
        history: of one kind of machine.
        path: the file.
        home: the address of the page of all runs, where there is one.

    Raises:
        SkymarkError: jinja2 is not installed, or the file cannot be written.
    """
    environment = page_environment()
    environment.filters["written"] = writer(history.metric)
    page = environment.get_template("history.html.j2").render(
        history=history, lines=[line_of(cell) for cell in history.cells], height=HEIGHT, home=home
    )
    with named_by_user(path):
        write_whole(path, page.encode(), durable=False)
