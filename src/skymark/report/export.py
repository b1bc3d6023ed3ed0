"""A run's figures as a flat table: CSV, Parquet or Arrow, a row per record."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skymark.report.text import plain
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
