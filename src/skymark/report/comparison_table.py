"""Show a comparison of two runs as a table in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from skymark.report.text import count, plain, significant
from skymark.statistics.difference import Verdict

if TYPE_CHECKING:
    from rich.console import Console

    from skymark.report.compare import CellComparison, Comparison

STYLES = {
    Verdict.FASTER: "green",
    Verdict.SLOWER: "bold red",
    Verdict.NO_DIFFERENCE: "",
    Verdict.INCONCLUSIVE: "yellow",
}


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print two runs side by side, what else differs between them, and a summary line."""
    console.print(Text(f"{plain(comparison.before)} → {plain(comparison.after)}", style="bold"))
    for remark in comparison.differs:
        console.print(Text(f"differs: {plain(remark)}", style="yellow"))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for heading in ("scenario", "adapter"):
        table.add_column(heading, overflow="fold")
    for heading in ("before", "after", "ratio", "95 % interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for cell in comparison.cells:
        table.add_row(*_row(cell))
    console.print(table)
    for title, ids in (("before", comparison.only_before), ("after", comparison.only_after)):
        if ids:
            console.print(Text(f"only {title}: {plain(', '.join(ids))}", style="dim"))
    counts = " · ".join(
        f"{comparison.count(verdict)} {verdict.value}"
        for verdict in Verdict
        if comparison.count(verdict)
    )
    margin = f"a difference counts from {comparison.practical:.0%} on"
    console.print(Text(f"{counts or 'nothing was measured in both'}  ({margin})"))


def _row(cell: CellComparison) -> tuple[Text, ...]:
    names = (Text(plain(cell.label)), Text(plain(cell.adapter)))
    rates = (
        Text(count(cell.samples_per_s_before)),
        Text(count(cell.samples_per_s_after)),
    )
    if cell.difference is None:
        change = f"{cell.status_before.value} → {cell.status_after.value}"
        return (*names, *rates, Text(), Text(), Text(change, "bold red" if cell.regressed else ""))
    ratio, verdict = cell.difference.ratio, cell.difference.verdict
    known = ratio.low is not None and ratio.high is not None
    interval = f"{significant(ratio.low or 0)} to {significant(ratio.high or 0)}" if known else ""
    return (
        *names,
        *rates,
        Text(significant(ratio.value)),
        Text(interval),
        Text(verdict.value, STYLES[verdict]),
    )
