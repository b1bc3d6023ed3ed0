"""Figures as flat tables: the rows of a run, and sheets of adapters × scenarios."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from math import hypot
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from skymark.model.errors import DataError
from skymark.model.metric import Declaration, Figure, Metric
from skymark.model.record import Setting, Status
from skymark.report.markdown import AT, markdown, markdown_table
from skymark.report.progress import directory_of, require_suite
from skymark.report.text import MISSING, plain, writer
from skymark.resources import load_object
from skymark.rundir.layout import MANIFEST
from skymark.rundir.newest import runs_in
from skymark.rundir.reader import Run, open_run
from skymark.rundir.row import Value, columns_of, price_per_million_usd, rows_of

if TYPE_CHECKING:
    from skymark.suite.contract import Suite


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
    import pyarrow.parquet as pq

    with path.open("wb") as file:
        pq.write_table(arrow_table(run), file)


def arrow_table(run: Run) -> Any:
    """Return a `pyarrow.Table` with one row per record and typed columns; missing is null."""
    import pyarrow as pa

    types = {
        str: pa.string(),
        int: pa.int64(),
        float: pa.float64(),
        bool: pa.bool_(),
        datetime: pa.timestamp("us", tz="UTC"),
    }
    schema = pa.schema([(name, types[kind]) for name, kind in columns(run).items()])
    return pa.Table.from_pylist(list(rows(run)), schema)


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
ENDS = ("low", "high")
"""Columns of an interval's bounds, behind a figure's."""
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
    metrics: dict[str, Figure]


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
    values: tuple[tuple[Figure | None, ...], ...]

    @property
    def bounded(self) -> tuple[bool, ...]:
        """Whether each column has intervals."""
        return tuple(
            any(one is not None and one.low is not None for one in column)
            for column in zip(*self.values, strict=True)
        )

    @property
    def head(self) -> list[str]:
        """The headings of all columns; a column with intervals is followed by their bounds."""
        each = zip(self.headings, self.bounded, strict=True)
        return [
            *self.corner,
            *(
                text
                for heading, bounded in each
                for text in ((heading, *(f"{heading} {end}" for end in ENDS[: 2 * bounded])))
            ),
        ]

    def rows(self) -> list[list[str | float | None]]:
        """Return the rows with every digit, in the order of `head`."""
        return [
            [
                *names,
                *(
                    number
                    for value, bounded in zip(values, self.bounded, strict=True)
                    for number in _numbers(value)[: 1 + 2 * bounded]
                ),
            ]
            for names, values in zip(self.names, self.values, strict=True)
        ]


def _numbers(figure: Figure | None) -> tuple[float | None, float | None, float | None]:
    return (None,) * 3 if figure is None else (figure.value, figure.low, figure.high)


def grid_of(
    readings: Iterable[Reading],
    declaration: Declaration,
    variants: Sequence[str],
    metrics: Sequence[str],
    corner: str,
    scenarios: Sequence[str] = (),
) -> Grid:
    """Return the sheet of some variants; rows and columns are in the order of the readings.

    A row is an adapter of one source: figures of two runs are never mixed. A row has a mean only if
    all its scenarios were scored.

    Args:
        readings: of any variant.
        declaration: of the suite.
        variants: of scenarios that are columns.
        metrics: names of those shown.
        corner: the suite's word for an adapter.
        scenarios: all columns, in order; empty for those of the readings.
    """
    chosen = [
        one
        for one in readings
        if one.variant in variants and any(name in one.metrics for name in metrics)
    ]
    scenarios = scenarios or list(dict.fromkeys(one.scenario for one in chosen))
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
) -> tuple[Figure | None, ...]:
    found = [
        row[scenario].metrics.get(metric.name) if scenario in row else None
        for scenario, metric in columns
    ]
    for _, metric in means:
        own = [row[one].metrics.get(metric.name) for one in scenarios if one in row]
        there = [value for value in own if value is not None]
        found.append(_mean(there) if len(there) == len(scenarios) else None)
    return tuple(found)


def _mean(figures: Sequence[Figure]) -> Figure:
    """Return the mean of independent figures; without an interval if one has none."""
    value = fmean(one.value for one in figures)
    widths = [one.high - one.low for one in figures if one.low is not None and one.high is not None]
    if len(widths) < len(figures):
        return Figure(value=value)
    half = hypot(*widths) / 2 / len(figures)
    return Figure(value=value, low=value - half, high=value + half)


def as_text(grid: Grid, format: SheetFormat) -> str:
    """Return a sheet as CSV with every digit, or as Markdown or HTML for people."""
    if format == "csv":
        return _csv(grid)
    shown = [
        [_shown(value, metric) for value, metric in pairs]
        for pairs in (zip(row, grid.metrics, strict=True) for row in grid.values)
    ]
    head = (*grid.corner, *grid.headings)
    body = [(*name, *row) for name, row in zip(grid.names, shown, strict=True)]
    return _markdown(head, body, len(grid.corner)) if format == "md" else _html(head, body)


def _shown(figure: Figure | None, metric: Metric) -> str:
    """Return a figure with its interval in brackets, if it has one."""
    if figure is None:
        return MISSING
    write = writer(metric)
    if figure.low is None or figure.high is None:
        return write(figure.value)
    return f"{write(figure.value)} ({write(figure.low)}–{write(figure.high)})"


def _csv(grid: Grid) -> str:
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(map(csv_cell, grid.head))
    count = len(grid.corner)
    for row in grid.rows():
        out.writerow([*map(csv_cell, map(str, row[:count])), *row[count:]])
    return text.getvalue()


def _markdown(head: Sequence[str], body: Iterable[Sequence[str]], names: int) -> str:
    first, *rows = ([QUIET.sub("@", markdown(one)) for one in row] for row in (head, *body))
    return "".join(f"{line}\n" for line in markdown_table(first, rows, names))


IN_SIGHT = "position:sticky;left:0;background:Canvas;text-align:left;white-space:nowrap"
"""Style of the names of rows, beside which a wide table scrolls."""


def _html(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    rows = [
        f"<tr><th style='{IN_SIGHT}'>{escape(plain(row[0]))}</th>"
        f"{''.join(f'<{tag}>{escape(plain(one))}</{tag}>' for one in row[1:])}</tr>"
        for tag, row in (("th", head), *(("td", row) for row in body))
    ]
    whole = "\n".join(("<div style='overflow-x:auto'><table>", *rows, "</table></div>\n"))
    return whole.encode("ascii", "xmlcharrefreplace").decode()  # a part of a page names no charset


def readings_at(place: str, suite: Suite) -> list[Reading]:
    """Return the figures at a place: of a run, of all runs in a directory, or of other programs.

    Raises:
        UsageError: there is nothing to read.
    """
    path = Path(place)
    if path.is_file():
        return [foreign_reading(path, suite)]
    if path.is_dir() and not (path / MANIFEST).exists():
        if runs := runs_in(path):
            return [
                reading
                for directory in runs
                if (run := open_run(directory)).manifest.plan.suite == suite.name
                for reading in of_run(run)
            ]
        return [foreign_reading(file, suite) for file in sorted(path.glob("*.json"))]
    with directory_of(place) as directory:
        run = open_run(directory)
        require_suite(run.manifest, directory, suite)
        return of_run(run)


def of_run(run: Run) -> list[Reading]:
    """Return the figures of a run's `ok` records."""
    return [
        Reading(
            source=run.manifest.run_id,
            adapter=record.cell.adapter,
            scenario=record.cell.scenario + _axes(record.cell.axes),
            variant=record.cell.variant,
            metrics=dict(record.metrics),
        )
        for record in run.records
        if record.status is Status.OK
    ]


def foreign_reading(file: Path, suite: Suite) -> Reading:
    """Return the figures of a file that another program wrote.

    Raises:
        DataError: it is in none of the formats that the suite reads.
    """
    problems = []
    for name, reference in suite.formats.items():
        try:
            found = load_object(reference)().read(file)
        except DataError as error:
            problems.append(f"{name}: {error}")
            continue
        return Reading(
            source=name,
            adapter=found.adapter,
            scenario=found.scenario + _axes(found.axes),
            variant=found.variant,
            metrics={name: Figure(value=value) for name, value in found.metrics.items()},
        )
    raise DataError(f"{file} is in no format that is read here: {'; '.join(problems)}")


def _axes(axes: Mapping[str, Setting]) -> str:
    return "".join(f" {name}={value}" for name, value in sorted(axes.items()))
