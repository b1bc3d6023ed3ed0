"""Markdown for GitHub: a run's tables, with text that makes no links and calls nobody."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from skymark.model.record import Record, Status
from skymark.report.ranking_table import (
    PLACE,
    UNSURE,
    Columns,
    RankedRow,
    group_marks,
    not_ranked,
    rankings_of,
    why_not_ranked,
)
from skymark.report.text import facts_of, noun_of, plain, reason_of
from skymark.report.verdicts import told_of, verdicts_of

if TYPE_CHECKING:
    from skymark.rundir.reader import Run


POWERFUL = re.compile(r"[\\`*\[\]<>|~&$]|(?<![^\W_])_|_(?![^\W_])")
SPACE = "&#8203;"
"""A space of no width (U+200B), as an entity."""
AT = f"@{SPACE}"
"""An at sign that calls nobody: a space of no width follows it."""
ADDRESSED = re.compile(
    r"(?<=:)(?=//)|(?<=www)(?=\.)|(?<=mailto:)(?=.)|(?<=xmpp:)(?=.)|(?<=#)(?=\d)|(?<=gh-)(?=\d)|(?<=@)",
    re.IGNORECASE,
)
"""Places within what GitHub makes a link or a reference of: a space of no width undoes it."""


def markdown(text: str) -> str:
    """Return text for a line or a table's cell.

    Signs with a meaning in Markdown or HTML become entities. CommonMark takes no entity for a sign
    that gives a document structure.
    """
    line = " ".join(plain(text).split())
    parts = (
        POWERFUL.sub(lambda found: f"&#{ord(found[0])};", part) for part in ADDRESSED.split(line)
    )
    return SPACE.join(parts)


def markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1
) -> Iterable[str]:
    """Yield the lines of a table whose cells are Markdown already.

    Args:
        head: headings.
        rows: as many cells each.
        names: number of columns, from the left, that are aligned to the left.
    """
    yield _row(head)
    yield _row(["---"] * names + ["---:"] * (len(head) - names))
    yield from map(_row, rows)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def code_span(text: str) -> str:
    """Return text as code within a line, between more backticks than it has in a row."""
    line = " ".join(plain(text).split())
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    return f"{fence}{line}{fence}" if fence == "`" else f"{fence} {line} {fence}"


def run_markdown(run: Run) -> str:
    """Return a run: its facts, a table per scenario, and what was not measured with the reason."""
    return "".join(f"{line}\n" for line in _lines(run))


def _lines(run: Run) -> Iterator[str]:
    declaration = run.declaration
    columns = Columns(run)
    yield f"## {markdown(run.manifest.run_id)}"
    yield from ("", markdown(facts_of(run)), "", markdown(_counts(run)))
    for sentence in run.manifest.plan.sentences:
        yield from ("", markdown(sentence))
    rankings = rankings_of(run)
    verdicts = told_of(verdicts_of(run, rankings))
    yield from ([""] if verdicts else [])
    for verdict in verdicts:
        first, *further = map(markdown, verdict.sentences)
        yield " ".join((f"- **{first}**" if verdict.decided else f"- {first}", *further))
    for label, records in run.by_label().items():
        rows, others = rankings[label], not_ranked(records, declaration)
        if rows or others:
            title = declaration.scenario_title(records[0].cell.scenario)
            yield from ("", f"### {markdown(label)}{f': {markdown(title)}' if title else ''}", "")
        if rows:
            yield from _table(rows, columns)
        if others:
            yield from ("", f"Not ranked: {markdown(why_not_ranked(others, declaration))}.", "")
            yield from _stand_ins(others, columns)
    if any(record.metrics for record in run.records):
        best = markdown(declaration.primary_metric.words.best)
        yield from (
            "",
            f"Bold: shown to be the {best}. A bracket: the order within it is not shown.",
        )
        yield f"{UNSURE}: not shown to differ."
    if rest := [record for record in run.records if record.status.value != "ok"]:
        yield from ("", "### Not in the ranking", "")
        yield from markdown_table(
            ("outcome", "scenario", markdown(noun_of(declaration)), "why, and what to do"),
            map(_absent, rest),
            names=4,
        )
    for problem in run.problems:
        yield from ("", f"Unreadable: {markdown(problem)}")


def _table(rows: Sequence[RankedRow], columns: Columns) -> Iterator[str]:
    filled = columns.all(rows)
    brackets = group_marks(rows)
    body = []
    for place, row in enumerate(rows):
        name = markdown(columns.declaration.adapter_name(row.record.cell.adapter))
        cells = [f"**{name}**" if row.wins else name]
        for column, entries in filled:
            bracket = brackets[place] if column.heading == PLACE else ""
            cells.append(markdown(f"{entries[place].text}{bracket}"))
        body.append(cells)
    head = (
        markdown(noun_of(columns.declaration)),
        *(markdown(column.heading) for column, _ in filled),
    )
    yield from markdown_table(head, body)


def _stand_ins(records: Sequence[Record], columns: Columns) -> Iterator[str]:
    shown = columns.stand_in(records)
    names = [columns.declaration.adapter_name(record.cell.adapter) for record in records]
    body = [
        [markdown(name), *(markdown(entries[place].text) for _, entries in shown)]
        for place, name in enumerate(names)
    ]
    head = (
        markdown(noun_of(columns.declaration)),
        *(markdown(metric.heading) for metric, _ in shown),
    )
    yield from markdown_table(head, body)


def _absent(record: Record) -> tuple[str, ...]:
    cell = record.cell
    words = (record.status.value, cell.label, cell.adapter, reason_of(record.cause))
    return tuple(map(markdown, words))


def _counts(run: Run) -> str:
    parts = [
        f"{number} {'measured' if status is Status.OK else status.value}"
        for status, number in run.counts.items()
    ]
    parts += [f"{len(run.missing)} without a record"] if run.missing else []
    empty = " (nothing was measured)" if parts and Status.OK not in run.counts else ""
    unfinished = "" if run.manifest.finished else " (the run was not finished)"
    return (" · ".join(parts) or "no records") + empty + unfinished
