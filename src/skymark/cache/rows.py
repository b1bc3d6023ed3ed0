"""Rows of JSON, CSV and Parquet files, as Arrow batches of one schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from skymark.model.errors import DataError
from skymark.parquet_pages import largest_dictionary
from skymark.whole_files import LARGEST_FILE_BYTES

BATCH_ROWS = 10_000


@dataclass(frozen=True)
class Survey:
    """The common schema and the size of the rows of several files."""

    schema: Any
    """Of Arrow, which all rows fit; numbers are widened where they must be."""
    rows: int
    held_bytes: int
    """In memory, as Arrow batches."""


def batches(files: Sequence[Path], kind: str, field: str | None) -> Iterator[Any]:
    """Yield the rows of files as record batches, in order.

    Raises:
        DataError: a file is not what its name says, or has no such field.
    """
    for file in files:
        try:
            yield from _batches_of(file, kind, field)
        except (ValueError, OSError, TypeError) as error:  # pyarrow's errors are ValueErrors, too
            raise DataError(f"{file} cannot be read as {kind}: {error}; mend it") from error


def survey(files: Sequence[Path], kind: str, field: str | None) -> Survey:
    """Read the rows of files once, and return what all of them need.

    Raises:
        DataError: they have no common types, or there are none.
    """
    import pyarrow as pa

    schema, rows, held_bytes = None, 0, 0
    for batch in batches(files, kind, field):
        found = batch.schema
        if schema is not None and found != schema:
            try:
                found = pa.unify_schemas([schema, found], promote_options="permissive")
            except pa.ArrowInvalid as error:
                raise DataError(f"{files[0]}: its rows have no common types ({error})") from error
        schema, rows, held_bytes = found, rows + batch.num_rows, held_bytes + batch.nbytes
    if not rows:
        raise DataError(f"{files[0]} has no rows")
    return Survey(schema, rows, held_bytes)


def _batches_of(file: Path, kind: str, field: str | None) -> Iterator[Any]:
    import pyarrow as pa

    if kind == "parquet":
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(file) as opened, file.open("rb") as pages:
            for number in range(opened.num_row_groups):
                each = largest_dictionary(opened.metadata, number, pages, None, LARGEST_FILE_BYTES)
                count = max(1, min(BATCH_ROWS, LARGEST_FILE_BYTES // max(1, each)))
                yield from opened.iter_batches(count, row_groups=[number])
    elif kind == "csv":
        from pyarrow import csv

        tabs = csv.ParseOptions(delimiter="\t" if file.suffix == ".tsv" else ",")
        with csv.open_csv(file, parse_options=tabs) as opened:
            yield from opened
    else:
        rows = _json_rows(file, field)
        while part := list(islice(rows, BATCH_ROWS)):
            yield pa.RecordBatch.from_pylist(part)


def _json_rows(file: Path, field: str | None) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file: one a line, a list of them, or those below a key."""
    if field is None:
        with file.open(encoding="utf-8") as opened:
            if _is_object(opened.readline()) and opened.readline().strip():
                opened.seek(0)
                yield from (json.loads(line) for line in opened if line.strip())
                return
    whole = json.loads(file.read_text("utf-8"))
    if field is not None:
        if not isinstance(whole, dict) or field not in whole:
            there = ", ".join(whole) if isinstance(whole, dict) else "none: it is a list"
            raise ValueError(f"it has no field {field!r}; it has {there}")
        whole = whole[field]
    if isinstance(whole, dict):
        keys = [key for key, value in whole.items() if _holds_rows(value)]
        if keys:
            raise ValueError(f"it is one object; name the key of its rows: --field {keys[0]}")
        whole = [whole]
    yield from whole


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _holds_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)
