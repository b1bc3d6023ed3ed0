"""Parquet files of rows that a reader yields: every value as it is, in row groups fit to stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from skymark.cache.conversion import GROUP_BYTES, SHARD_BYTES
from skymark.model.errors import DataError
from skymark.model.named_data import NamedData

GROUP_ROWS = 10_000
VALUE_BYTES = 8
"""Of a value that is neither text nor bytes, roughly."""


def write_rows(data: NamedData, directory: Path) -> None:
    """Write all rows in order, in one pass; another file begins where types change.

    Types are not widened over files, so what is read back is what the reader yielded.

    Raises:
        DataError: a row cannot be read, or its values cannot be kept as Parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    number, written, schema = 0, 0, None
    with ExitStack() as stack:
        for place, table in _tables(data):
            try:
                if table.schema != schema or written >= SHARD_BYTES:
                    stack.close()
                    path = directory / f"rows-{number:05d}.parquet"
                    writer = stack.enter_context(pq.ParquetWriter(path, table.schema))
                    number, written, schema = number + 1, 0, table.schema
                writer.write_table(table, row_group_size=table.num_rows)
            except pa.ArrowException as error:
                raise _unkept(place, error) from error
            written += table.nbytes
    if not number:
        raise DataError(f"{data.address} holds no row; give data that does")


def _tables(data: NamedData) -> Iterator[tuple[str, Any]]:
    """Yield a table for each row group, with the place of its first row."""
    import pyarrow as pa

    for places, rows in _groups(data.rows()):
        columns = zip(*rows, strict=True)
        try:
            arrays = [pa.array(column) for column in columns]
        except (pa.ArrowException, OverflowError) as error:
            raise _unkept(places, error) from error
        yield places, pa.table(dict(zip(data.fields, arrays, strict=True)))


def _groups(
    rows: Iterable[tuple[str, tuple[Any, ...]]],
) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """Gather rows to groups of about `GROUP_BYTES`."""
    first, held, held_bytes = "", list[tuple[Any, ...]](), 0
    for place, values in rows:
        first = first or place
        held.append(values)
        held_bytes += sum(map(_bytes_of, values))
        if held_bytes >= GROUP_BYTES or len(held) >= GROUP_ROWS:
            yield first, held
            first, held, held_bytes = "", [], 0
    if held:
        yield first, held


def _bytes_of(value: Any) -> int:
    return len(value) if isinstance(value, (bytes, str, list)) else VALUE_BYTES


def _unkept(place: str, error: Exception) -> DataError:
    return DataError(
        f"{place} and the rows after it cannot be kept as Parquet ({error}); give a field one "
        "type, or take --cache-policy per-job or shared"
    )
