"""Parquet files, local or on a file system that gives them out in ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skymark.model.errors import DataError
from skymark.model.installed import needs
from skymark.suites.loading.dataset.sources.data_source import DataSource, Row
from skymark.suites.loading.dataset.sources.signs import check_jpeg

ROWS_AT_ONCE = 256


class ParquetFiles(DataSource):
    """Rows of Parquet files, file after file. A column is a field."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.files = tuple(paths)
        with opened(self.files[0]) as file:
            self.fields = tuple(file.schema_arrow.names)

    def count(self, limit: int) -> int:
        """Return the number of rows, which reads the files' footers only."""
        rows = 0
        for path in self.files:
            with opened(path) as file:
                rows += file.metadata.num_rows
            if rows >= limit:
                break
        return min(rows, limit)

    def read(self, fields: Sequence[str], limit: int) -> Iterator[Row]:
        """Read rows in stored order."""
        left = limit
        for path in self.files:
            number = 0
            with opened(path) as file:
                missing = [field for field in fields if field not in file.schema_arrow.names]
                if missing:
                    raise DataError(f"{path} has no column {missing[0]!r} as the first file has")
                for batch in file.iter_batches(ROWS_AT_ONCE, columns=list(fields)):
                    columns = [batch.column(field).to_pylist() for field in fields]
                    for values in zip(*columns, strict=True):
                        if not left:
                            return
                        yield Row(f"{path}, row {number}", tuple(map(_plain, values)))
                        number += 1
                        left -= 1

    def check(self, field: str, limit: int) -> None:
        """Look at the first and last bytes of values that begin as JPEG files."""
        import io

        if field not in self.fields:
            return
        for row in self.read((field,), limit):
            if isinstance(data := row.values[0], bytes) and data.startswith(b"\xff\xd8"):
                check_jpeg(io.BytesIO(data), len(data), f"the image of {row.place}")


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
        with pq.ParquetFile(file) as parquet:
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
