"""Show a run, or a comparison of two, as tables in a terminal of any width."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.padding import Padding
from rich.text import Text

from skymark.model.record import Cause, Estimate, Record, StabilityWarning, Status
from skymark.report.names import scenario_title
from skymark.report.ranking import BASELINE, Row, ranked
from skymark.report.text import (
    MISSING,
    count,
    margin,
    milliseconds,
    plain,
    share,
    significant,
    size,
)
from skymark.statistics.difference import Difference, Verdict

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from skymark.run.reader import Run

STYLES = {
    Status.OK: "green",
    Status.INVALID: "bold red",
    Status.FAILED: "red",
    Status.TIMEOUT: "red",
    Status.SKIPPED: "yellow",
    Status.UNSUPPORTED: "dim",
}
GUTTER = 2
UNSURE = "≈"
"""Stands before a ratio whose distance from 1 is not shown to be real."""
LEGEND = (
    "bold: not shown to be slower than the fastest · ≈ not shown to differ · "
    "! has a warning · interval: 95 % over rounds · waits per batch"
)


@dataclass(frozen=True)
class Column:
    """One column: its heading, how a row shows in it, and how soon it gives way (0 never)."""

    heading: str
    cell: Callable[[Row], str]
    yields: int = 0


COLUMNS = (
    Column("adapter", lambda row: plain(row.record.cell.adapter) + _mark(row)),
    Column("samples/s", lambda row: count(row.figures.samples_per_s.value)),
    Column("interval", lambda row: margin(row.figures.samples_per_s)),
    Column("of best", lambda row: f"{_unsure(row.to_best)}{share(row.to_best.ratio.value)}"),
    Column(f"× {BASELINE}", lambda row: _times(row.to_baseline), yields=6),
    Column("MB/s", lambda row: count(row.figures.bytes_per_s.value / 1e6), yields=9),
    Column("busy", lambda row: share(_value(row.figures.utilisation)), yields=1),
    Column("first ms", lambda row: milliseconds(row.figures.first_batch_ns.value), yields=4),
    Column("p50 ms", lambda row: milliseconds(row.figures.wait_p50_ns), yields=2),
    Column("p95 ms", lambda row: milliseconds(row.figures.wait_p95_ns), yields=8),
    Column("p99 ms", lambda row: milliseconds(row.figures.wait_p99_ns), yields=3),
    Column("CPU s/1k", lambda row: _seconds(row.figures.cpu_s_per_1000_samples), yields=7),
    Column("peak mem", lambda row: size(row.figures.peak_pss_bytes), yields=5),
)


def print_report(run: Run, console: Console) -> None:
    """Print a run: one table per scenario, what was not measured, warnings, a summary line."""
    console.print(Text(plain(run.manifest.run_id), style="bold"))
    console.print(_machine(run))
    for label, records in run.by_label().items():
        if rows := ranked(records):
            console.print(_heading(label, records[0].cell.scenario))
            console.print(_table(rows, console.width), no_wrap=True, overflow="ellipsis")
    if any(record.figures for record in run.records):
        console.print()
        console.print(Text(LEGEND, style="dim"))
    _print_bad(run.records, console)
    _print_absent(run.records, console)
    _print_warnings(run.records, console)
    for problem in run.problems:
        console.print(Text(f"unreadable: {plain(problem)}", style="red"))
    console.print()
    console.print(_summary(run))


def _machine(run: Run) -> Text:
    hardware = run.manifest.machine.hardware
    limits = run.manifest.machine.limits
    parts = [
        f"profile {run.manifest.profile}",
        f"effort {run.manifest.effort.name}",
        hardware.cpu_model or hardware.architecture,
        f"{limits.usable_cores or hardware.logical_cores or MISSING} cores",
        size(hardware.memory_bytes),
        *(accelerator.name for accelerator in hardware.accelerators or ()),
        *(f"continued on {one.name}" for one in run.manifest.continued_on),
    ]
    return Text(plain(" · ".join(parts)), style="dim")


def _heading(label: str, scenario: str) -> Text:
    title = scenario_title(scenario)
    return Text.assemble("\n", (plain(label), "bold cyan"), f"  {title}" if title else "")


def _table(rows: Sequence[Row], width: int) -> Text:
    """Return a table of the columns that fit, without those that have nothing to show.

    Its lines are made here: a `rich.table.Table` is many times slower, and a run may have
    thousands of tables.
    """
    filled = [(column, [column.cell(row) for row in rows]) for column in COLUMNS]
    filled = [(column, cells) for column, cells in filled if set(cells) - {MISSING, ""}]
    widths = {
        column.heading: max(map(cell_len, (column.heading, *cells))) for column, cells in filled
    }
    while sum(widths.values()) + GUTTER * len(widths) > width:
        if not any(column.yields for column, _ in filled):
            break
        gone = max(filled, key=lambda one: one[0].yields)
        filled.remove(gone)
        del widths[gone[0].heading]
    lines = Text(_line([column.heading for column, _ in filled], widths.values()), style="dim")
    for place, row in enumerate(rows):
        line = _line([cells[place] for _, cells in filled], widths.values())
        lines = lines.append("\n").append(line, style="not dim bold" if row.leads else "not dim")
    return lines


def _line(cells: Sequence[str], widths: Iterable[int]) -> str:
    """Return one line of a table: the first cell to the left, all others to the right."""
    spaces = [" " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)]
    first, *others = zip(cells, spaces, strict=True)
    return (" " * GUTTER).join(["".join(first), *(space + cell for cell, space in others)])


def _print_bad(records: Sequence[Record], console: Console) -> None:
    bad = [record for record in records if record.status.is_bad]
    if bad:
        console.print()
    for record in bad:
        console.print(
            Text.assemble(
                (record.status.value, STYLES[record.status]),
                f"  {plain(record.cell.label)}  {plain(record.cell.adapter)}",
            )
        )
        console.print(_indented(_reason(record.cause)))


def _print_absent(records: Sequence[Record], console: Console) -> None:
    """Print what was skipped or unsupported, together where the reason is the same."""
    groups: dict[tuple[Status, str, str], list[str]] = {}
    for record in records:
        if record.status in {Status.SKIPPED, Status.UNSUPPORTED}:
            key = (record.status, record.cell.adapter, _reason(record.cause))
            groups.setdefault(key, []).append(record.cell.scenario)
    if groups:
        console.print()
    for (status, adapter, reason), scenarios in groups.items():
        console.print(
            Text.assemble(
                (status.value, STYLES[status]),
                f"  {plain(adapter)}  ({plain(', '.join(dict.fromkeys(scenarios)))})",
            )
        )
        console.print(_indented(reason))


def _print_warnings(records: Sequence[Record], console: Console) -> None:
    """Print each kind of warning once, with the cells that have it and what to do."""
    groups: dict[str, list[tuple[Record, StabilityWarning]]] = {}
    for record in records:
        for warning in record.warnings:
            groups.setdefault(warning.kind, []).append((record, warning))
    if groups:
        console.print()
    for kind, found in groups.items():
        record, warning = found[0]
        others = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        console.print(
            Text.assemble(
                (f"! {plain(kind)}", "yellow"),
                f"  {plain(record.cell.label)} {plain(record.cell.adapter)}: ",
                f"{plain(warning.message)}{others}",
            )
        )
        console.print(_indented(f"→ {plain(warning.action)}"))


def _summary(run: Run) -> Text:
    parts: list[Text] = [
        Text(f"{number} {status.value}", style=STYLES[status])
        for status, number in run.counts.items()
    ]
    if run.missing:
        parts.append(Text(f"{len(run.missing)} without a record", style="yellow"))
    line = Text(" · ").join(parts) if parts else Text("no records")
    if not run.manifest.finished:
        line.append("  (the run was not finished; continue it with --resume)", style="yellow")
    return line


def _reason(cause: Cause | None) -> str:
    if cause is None:
        return "no cause was recorded"
    return plain(cause.message) + (f"\n→ {plain(cause.action)}" if cause.action else "")


def _indented(text: str) -> RenderableType:
    return Padding(Text(text), (0, 0, 0, 2), expand=False)


def _mark(row: Row) -> str:
    return " !" if row.record.warnings else ""


def _unsure(difference: Difference) -> str:
    real = {Verdict.FASTER, Verdict.SLOWER}
    return "" if difference.verdict in real or difference.ratio.value == 1 else UNSURE


def _times(difference: Difference | None) -> str:
    if difference is None:
        return MISSING
    return f"{_unsure(difference)}{significant(difference.ratio.value, 2)}"


def _seconds(estimate: Estimate | None) -> str:
    return MISSING if estimate is None else significant(estimate.value, 2)


def _value(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.value
