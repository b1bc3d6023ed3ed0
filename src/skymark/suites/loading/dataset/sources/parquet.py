"""Parquet files, local or on a file system that gives them out in ranges."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from skymark.model.errors import DataError
from skymark.model.installed import needs
from skymark.parquet_pages import largest_dictionary
from skymark.suites.loading.dataset.sources.data_source import (
    LARGEST_VALUE_BYTES,
    DataSource,
    Row,
)

MOST_ROWS_AT_ONCE = 1024
BYTES_AT_ONCE = 16 << 20
"""Of rows that are in memory together, so that a row group of gigabytes needs no more."""
BUFFER_BYTES = 1 << 20
"""Read at a time of each column."""
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


class ParquetFiles(DataSource):
    """Rows of Parquet files, file after file. A column is a field, but pandas' index is none."""

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__()
        self.files = tuple(paths)
        with opened(self.files[0]) as file:
            names, index = file.schema_arrow.names, index_columns(file.schema_arrow)
        self.fields = tuple(name for name in names if name not in index)
        for name in sorted(index):
            self.ignored[f"column {name} (index of pandas)"] = 1

    def counts(self) -> Iterator[int]:
        """Count the rows by the files' footers."""
        for path in self.files:
            with opened(path) as file:
                rows = file.metadata.num_rows
            yield rows

    def read(self, fields: Sequence[str], limit: int) -> Iterator[Row]:
        """Read rows in stored order."""
        left = limit
        for path in self.files:
            number = 0
            with opened(path) as file, path.open("rb") as pages:
                missing = [field for field in fields if field not in file.schema_arrow.names]
                if missing:
                    raise DataError(f"{path} has no column {missing[0]!r} as the first file has")
                for batch in _batches(file, pages, path, fields):
                    columns = [batch.column(field).to_pylist() for field in fields]
                    for values in zip(*columns, strict=True):
                        if not left:
                            return
                        yield Row(f"{path}, row {number}", tuple(map(_plain, values)))
                        number += 1
                        left -= 1
                if number != file.metadata.num_rows:
                    raise DataError(
                        f"{path} gave {number} of the {file.metadata.num_rows} rows in its footer; "
                        "copy it again"
                    )


def _batches(file: Any, pages: BinaryIO, path: Path, fields: Sequence[str]) -> Iterator[Any]:
    """Yield the rows of a file, each row group after a look at its pages."""
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        try:
            each = largest_dictionary(file.metadata, number, pages, fields, LARGEST_VALUE_BYTES)
        except DataError as error:
            raise DataError(f"{path}: {error}") from error
        rows = min(
            MOST_ROWS_AT_ONCE,
            BYTES_AT_ONCE * group.num_rows // max(1, group.total_byte_size),
            LARGEST_VALUE_BYTES // max(1, each),
        )
        yield from file.iter_batches(max(1, rows), row_groups=[number], columns=list(fields))


def index_columns(schema: Any) -> set[str]:
    """Return the columns that hold the index of a pandas table, which is no value of a row."""
    names = schema.names
    try:
        pandas = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
        said = [one for one in pandas.get("index_columns", ()) if isinstance(one, str)]
    except (ValueError, AttributeError, TypeError):
        said = []
    unnamed = [name for name in names if _PANDAS_INDEX.fullmatch(name)]
    return {*unnamed, *said} & set(names)


@contextmanager
def opened(file: Any, name: str | None = None) -> Iterator[Any]:
    """Open a Parquet file, given by its path or, with a name, as an open file.

    Raises:
        DataError: it is none, or ends too early; PyArrow is absent.
    """
    with needs("pyarrow"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    # An open file's own errors are its owner's to explain.
    faults = (pa.ArrowException, UnicodeDecodeError, *([OSError] if name is None else []))
    try:
        with pq.ParquetFile(file, buffer_size=BUFFER_BYTES, pre_buffer=False) as parquet:
            yield parquet
    except faults as error:
        raise DataError(
            f"{name or file} is no whole Parquet file ({error}); copy it again"
        ) from error


def _plain(value: Any) -> Any:
    """Return the bytes of a file that is stored with its path, as datasets of the Hub do."""
    if isinstance(value, dict) and "bytes" in value:
        return value["bytes"]
    return value
