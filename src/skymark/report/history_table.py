"""Table of a history in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from skymark.report.comparison_table import STYLES
from skymark.report.text import plain, writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from skymark.report.history import Change, History

BARS = "▁▂▃▄▅▆▇█"
LONGEST_LINE = 30


def print_history(history: History, console: Console) -> None:
    """Print a line per cell: its last values as bars, the newest, and where its level changed."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for heading in ("scenario", "adapter"):
        table.add_column(heading, overflow="fold")
    for heading in ("runs", "first", "last"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column(plain(history.metric.heading), no_wrap=True)
    table.add_column("changes", overflow="fold")
    write = writer(history.metric)
    for cell in history.cells:
        table.add_row(
            Text(plain(cell.label)),
            Text(plain(cell.adapter)),
            Text(f"{len(cell.values)}"),
            Text(write(cell.values[0])),
            Text(write(cell.values[-1])),
            Text(bars(cell.values[-LONGEST_LINE:])),
            Text("\n").join(map(_change, cell.changes)),
        )
    console.print(table)
    if left := sum(cell.other_runs for cell in history.cells):
        console.print(Text(f"{left} records of other settings or definitions are left out"))
    changed = sum(bool(cell.changes) for cell in history.cells)
    console.print(
        Text(
            f"{len(history.run_ids)} runs · {changed} of {len(history.cells)} cells changed  "
            f"(a change counts from {history.practical:.0%} on)"
        )
    )


def bars(values: Sequence[float]) -> str:
    """Return values as bars: the lowest is the lowest bar, the highest the highest."""
    low, high = min(values), max(values)
    if low == high:
        return BARS[0] * len(values)
    return "".join(BARS[round((one - low) / (high - low) * (len(BARS) - 1))] for one in values)


def _change(change: Change) -> Text:
    ratio, verdict = change.difference.ratio, change.difference.verdict
    share = "from zero" if ratio is None else f"{ratio.value - 1:+.0%}"
    return Text(f"{share} at {plain(change.run_id)}", STYLES[verdict])
