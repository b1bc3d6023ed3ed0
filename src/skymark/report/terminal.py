"""Tables of a run in a terminal of any width."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.padding import Padding
from rich.text import Text

from skymark.machine.fitness import fitness_warnings
from skymark.model.metric import Declaration
from skymark.model.record import Record, Status
from skymark.report.ranking_table import (
    GROUP_MARKS,
    PLACE,
    UNSURE,
    WIDE_ONLY,
    Columns,
    RankedRow,
    group_marks,
    not_ranked,
    rankings_of,
    why_not_ranked,
)
from skymark.report.text import MOST_SHOWN, facts_of, noun_of, plain, reason_of, warned_in
from skymark.report.verdicts import ScenarioVerdict, decided_in, told_of, verdicts_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from skymark.rundir.reader import Run

STYLES = {
    Status.OK: "green",
    Status.INVALID: "bold red",
    Status.FAILED: "red",
    Status.TIMEOUT: "red",
    Status.SKIPPED: "yellow",
    Status.UNSUPPORTED: "dim",
}
GUTTER = 2


def print_report(run: Run, console: Console, *, wide: bool = False) -> None:
    """Print a run: verdicts, a table per scenario, refusals, warnings, a summary line.

    Args:
        run: of any status.
        console: where to print it.
        wide: print all columns, in lines of any length.
    """
    width = None if wide else console.width
    console.print(Text(plain(run.manifest.run_id), style="bold"))
    console.print(Text(plain(facts_of(run)), style="dim"))
    for warning in fitness_warnings(run.manifest.machine):
        console.print(Text(f"! {plain(warning.message)}", style="yellow"))
        console.print(_indented(f"→ {plain(warning.action)}"))
    for sentence in run.manifest.plan.sentences:
        console.print(Text(plain(sentence)))
    declaration = run.declaration
    columns = Columns(run)
    rankings = rankings_of(run)
    verdicts = verdicts_of(run, rankings)
    if told := told_of(verdicts):
        console.print()
    for verdict in told:
        console.print(_said(verdict))
    for label, records in run.by_label().items():
        rows, others = rankings[label], not_ranked(records, declaration)
        if rows or others:
            title = declaration.scenario_title(records[0].cell.scenario)
            console.print(_heading(label, title))
        if rows:
            _print_table(_table(rows, columns, width), console)
        if others:
            why = plain(why_not_ranked(others, declaration))
            console.print(Text(f"not ranked: {why}", style="dim"))
            _print_table(_stand_ins(others, columns, width), console)
    if any(record.metrics for record in run.records):
        console.print()
        console.print(Text(_legend(declaration, run.records), style="dim"))
    _print_bad(run.records, console)
    _print_absent(run.records, console)
    _print_warnings(run.records, console)
    for problem in run.problems:
        console.print(Text(f"unreadable: {plain(problem)}", style="red"))
    console.print()
    console.print(_summary(run, verdicts))


def _legend(declaration: Declaration, records: Sequence[Record]) -> str:
    metric = declaration.primary_metric
    parts = [
        f"bold: shown to be the {metric.words.best}",
        f"{''.join(GROUP_MARKS)} order not shown",
        f"{UNSURE} not shown to differ",
        "! has a warning",
        *([] if metric.scale == "exact" else ["±: half the 95 % interval over rounds"]),
        *([declaration.legend] if declaration.legend else []),
    ]
    seen = {f"{name}={value}" for record in records for name, value in record.conditions.items()}
    parts += [text for condition, text in declaration.legends.items() if condition in seen]
    return plain(" · ".join(parts))


def _heading(label: str, title: str | None) -> Text:
    return Text.assemble("\n", (plain(label), "bold cyan"), f"  {plain(title)}" if title else "")


def _print_table(table: Text, console: Console) -> None:
    """Print lines without a break; their columns fit the width already."""
    console.print(table, no_wrap=True, overflow="ignore", crop=False)


def _table(rows: Sequence[RankedRow], columns: Columns, width: int | None) -> Text:
    """Return a table of the columns that fit, without empty ones.

    Its lines are made here: a `rich.table.Table` is many times slower, and a run may have
    thousands of tables.
    """
    adapters = [_name(row.record) for row in rows]
    filled = [(noun_of(columns.declaration), 0, adapters)] + [
        (plain(column.heading), column.gives_way, [entry.text for entry in entries])
        for column, entries in columns.all(rows)
    ]
    for heading, _, texts in filled:
        if heading == PLACE:
            texts[:] = map("".join, zip(texts, group_marks(rows), strict=True))
    return _lines(filled, width, {place for place, row in enumerate(rows) if row.wins})


def _stand_ins(records: Sequence[Record], columns: Columns, width: int | None) -> Text:
    """Return a table of records that are not ranked, of the columns that fit."""
    filled = [(noun_of(columns.declaration), 0, [_name(record) for record in records])] + [
        (plain(metric.heading), metric.shown.gives_way if metric.shown and number else 0, texts)
        for number, (metric, entries) in enumerate(columns.stand_in(records))
        if (texts := [entry.text for entry in entries])
    ]
    return _lines(filled, width)


def _lines(
    filled: list[tuple[str, int, list[str]]], width: int | None, bold: Collection[int] = ()
) -> Text:
    """Return the lines of a table.

    Args:
        filled: its columns: heading, how soon it gives way (0 never), and an entry per row.
        width: of the terminal; None for a wide table.
        bold: numbers of rows, from 0.
    """
    if width is not None:
        filled = [one for one in filled if one[1] < WIDE_ONLY]
    widths = [max(map(cell_len, (heading, *texts))) for heading, _, texts in filled]
    while width is not None and sum(widths) + GUTTER * len(widths) > width:
        gone = max(range(len(filled)), key=lambda place: filled[place][1])
        if not filled[gone][1]:
            break
        del filled[gone], widths[gone]
    lines = Text(_line([heading for heading, _, _ in filled], widths), style="dim")
    for place in range(len(filled[0][2])):
        line = _line([texts[place] for _, _, texts in filled], widths)
        style = "not dim bold" if place in bold else "not dim"
        lines = lines.append("\n").append(line, style=style)
    return lines


def _line(cells: Sequence[str], widths: Iterable[int]) -> str:
    """Return one line of a table: the first cell to the left, all others to the right."""
    spaces = [" " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)]
    first, *others = zip(cells, spaces, strict=True)
    return (" " * GUTTER).join(["".join(first), *(space + cell for cell, space in others)])


def _print_bad(records: Sequence[Record], console: Console) -> None:
    bad = [record for record in records if record.status.is_bad and not record.was_not_set_up]
    if bad:
        console.print()
    for record in bad:
        console.print(
            Text.assemble(
                (record.status.value, STYLES[record.status]),
                f"  {plain(record.cell.label)}  {plain(record.cell.adapter)}",
            )
        )
        console.print(_indented(plain(reason_of(record.cause))))


def _print_absent(records: Sequence[Record], console: Console) -> None:
    """Print the cells that nothing was run of, together where the reason is the same."""
    groups: dict[tuple[Status, str, str], list[str]] = {}
    for record in records:
        if record.was_not_run:
            key = (record.status, record.cell.adapter, plain(reason_of(record.cause)))
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
    kinds = warned_in(records)
    if kinds:
        console.print()
    for kind in kinds[:MOST_SHOWN]:
        record, warning = kind.shown[0]
        others = f" (and {kind.count - 1} more)" if kind.count > 1 else ""
        console.print(
            Text.assemble(
                (f"! {plain(warning.kind)}", "yellow"),
                f"  {plain(record.cell.label)} {plain(record.cell.adapter)}: ",
                f"{plain(warning.message)}{others}",
            )
        )
        console.print(_indented(f"→ {plain(warning.action)}"))
    if (more := len(kinds) - MOST_SHOWN) > 0:
        console.print(f"! and {more} more kinds of warnings", style="yellow")


def _said(verdict: ScenarioVerdict) -> Text:
    """Return a verdict with its scenario in colour, and its first sentence in bold if decided."""
    first, *others = map(plain, verdict.sentences)
    label = plain(verdict.label)
    text = Text(first, style="bold" if verdict.decided else "")
    text.stylize("bold cyan", 0, len(label) if first.startswith(label) else 0)
    return text.append("".join(f" {sentence}" for sentence in others), style="not bold")


def _summary(run: Run, verdicts: Sequence[ScenarioVerdict]) -> Text:
    parts: list[Text] = [
        Text(f"{number} measured")
        if status is Status.OK
        else Text(f"{number} {status.value}", style=STYLES[status])
        for status, number in run.counts.items()
    ]
    if (decided := decided_in(verdicts)) is not None:
        parts.append(Text(decided))
    if run.missing:
        parts.append(Text(f"{len(run.missing)} without a record", style="yellow"))
    line = Text(" · ").join(parts) if parts else Text("no records")
    if parts and Status.OK not in run.counts:
        line.append("  (nothing was measured)", style="red")
    if not run.manifest.finished:
        line.append("  (the run was not finished; continue it with --resume)", style="yellow")
    return line


def _indented(text: str) -> RenderableType:
    return Padding(Text(text), (0, 0, 0, 2), expand=False)


def _name(record: Record) -> str:
    return plain(record.cell.adapter) + (" !" if record.warnings else "")
