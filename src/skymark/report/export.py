"""A run's figures as flat tables: all of them, or a sheet of adapters × scenarios."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from skymark.model.metric import Declaration, Metric
from skymark.report.markdown import AT, markdown, markdown_table
from skymark.report.text import MISSING, plain, writer
from skymark.rundir.row import Value, columns_of, price_per_million_usd, rows_of

if TYPE_CHECKING:
    from skymark.rundir.reader import Run


FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\ufffd", "＝", "＋", "－", "＠")
"""Beginnings that a spreadsheet may take for a formula's; U+FFFD stood for a control character."""
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


def write_csv(run: Run, path: Path) -> None:
    """Write one line per record, in UTF-8 with a heading; missing is an empty field."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(csv_cell, columns(run)))
    writer.writerows(map(csv_cell, row.values()) for row in rows(run))
    path.write_text(text.getvalue(), encoding="utf-8")


def csv_cell(value: Value) -> Value:
    """Return a value as a cell that no spreadsheet takes for a formula (OWASP: CSV injection)."""
    if not isinstance(value, str):
        return value
    shown = plain(value)
    return f"'{shown}" if shown.startswith(FORMULAS) and not NUMBER.fullmatch(shown) else shown


def write_parquet(run: Run, path: Path) -> None:
    """Write one row per record, with typed columns; missing is null."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {
        str: pa.string(),
        int: pa.int64(),
        float: pa.float64(),
        bool: pa.bool_(),
        datetime: pa.timestamp("us", tz="UTC"),
    }
    schema = pa.schema([(name, types[kind]) for name, kind in columns(run).items()])
    with path.open("wb") as file:
        pq.write_table(pa.Table.from_pylist(list(rows(run)), schema), file)


def columns(run: Run) -> dict[str, type]:
    """Return the name and type of every column, in order."""
    return {"run_id": str, **columns_of(run.declaration), "price_per_million_usd": float}


def rows(run: Run) -> Iterator[dict[str, Value]]:
    """Yield one row per record: every column, missing as None."""
    declaration, hourly_usd = run.declaration, run.manifest.hourly_price_usd
    for record, row in zip(run.records, rows_of(run.records, declaration), strict=True):
        price_usd = price_per_million_usd(record, declaration, hourly_usd)
        yield {"run_id": run.manifest.run_id, **row, "price_per_million_usd": price_usd}


SheetFormat = Literal["csv", "md", "html"]
MEAN = "mean"
QUIET = re.compile(rf"(?<=\w){AT}")
"""An at sign within a word calls nobody, and needs no space after it."""


@dataclass(frozen=True)
class Reading:
    """The figures of one cell, from a run or from another program."""

    source: str
    adapter: str
    scenario: str
    """With its axes."""
    variant: str
    metrics: dict[str, float]


@dataclass(frozen=True)
class Grid:
    """A sheet's values: `None` where a pair was not scored."""

    corner: tuple[str, ...]
    """Headings of the names of rows."""
    headings: tuple[str, ...]
    metrics: tuple[Metric, ...]
    """Of each column."""
    names: tuple[tuple[str, ...], ...]
    """Of each row."""
    values: tuple[tuple[float | None, ...], ...]


def grid_of(
    readings: Iterable[Reading],
    declaration: Declaration,
    variants: Sequence[str],
    metrics: Sequence[str],
    corner: str,
) -> Grid:
    """Return the sheet of some variants; rows and columns are in the order of the readings.

    A row is an adapter of one source: figures of two runs are never mixed. The mean of a row is
    over all scenarios, and is left out where one was not scored.

    Args:
        readings: of any variant.
        declaration: of the suite.
        variants: of scenarios that are columns.
        metrics: names of those shown.
        corner: the suite's word for an adapter.
    """
    chosen = [
        one
        for one in readings
        if one.variant in variants and any(name in one.metrics for name in metrics)
    ]
    scenarios = list(dict.fromkeys(one.scenario for one in chosen))
    rows: dict[tuple[str, str], dict[str, Reading]] = {}
    for one in chosen:
        rows.setdefault((one.adapter, one.source), {})[one.scenario] = one
    declared = [declaration.metric(name) for name in metrics]
    named = len({source for _, source in rows}) > 1
    columns = [(scenario, metric) for scenario in scenarios for metric in declared]
    means = [(MEAN, metric) for metric in declared] if len(scenarios) > 1 else []
    several = len(declared) > 1
    return Grid(
        corner=(corner, "run") if named else (corner,),
        headings=tuple(
            f"{scenario} {metric.heading}" if several else scenario
            for scenario, metric in (*columns, *means)
        ),
        metrics=tuple(metric for _, metric in (*columns, *means)),
        names=tuple((adapter, source) if named else (adapter,) for adapter, source in rows),
        values=tuple(_values(row, columns, means, scenarios) for row in rows.values()),
    )


def _values(
    row: dict[str, Reading],
    columns: Sequence[tuple[str, Metric]],
    means: Sequence[tuple[str, Metric]],
    scenarios: Sequence[str],
) -> tuple[float | None, ...]:
    found = [
        row[scenario].metrics.get(metric.name) if scenario in row else None
        for scenario, metric in columns
    ]
    for _, metric in means:
        own = [row[one].metrics.get(metric.name) for one in scenarios if one in row]
        there = [value for value in own if value is not None]
        found.append(fmean(there) if len(there) == len(scenarios) else None)
    return tuple(found)


def as_text(grid: Grid, format: SheetFormat) -> str:
    """Return a sheet as CSV with every digit, or as Markdown or HTML for people."""
    if format == "csv":
        return _csv(grid)
    shown = [
        [MISSING if value is None else writer(metric)(value) for value, metric in pairs]
        for pairs in (zip(row, grid.metrics, strict=True) for row in grid.values)
    ]
    head = (*grid.corner, *grid.headings)
    body = [(*name, *row) for name, row in zip(grid.names, shown, strict=True)]
    return _markdown(head, body, len(grid.corner)) if format == "md" else _html(head, body)


def _csv(grid: Grid) -> str:
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(map(csv_cell, (*grid.corner, *grid.headings)))
    for name, row in zip(grid.names, grid.values, strict=True):
        out.writerow([*map(csv_cell, name), *row])
    return text.getvalue()


def _markdown(head: Sequence[str], body: Iterable[Sequence[str]], names: int) -> str:
    first, *rows = ([QUIET.sub("@", markdown(one)) for one in row] for row in (head, *body))
    return "".join(f"{line}\n" for line in markdown_table(first, rows, names))


def _html(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    rows = [
        f"<tr>{''.join(f'<{tag}>{escape(plain(one))}</{tag}>' for one in row)}</tr>"
        for tag, row in (("th", head), *(("td", row) for row in body))
    ]
    return "\n".join(
        (
            "<table>",
            *rows,
            "</table>\n",
        )
    )
