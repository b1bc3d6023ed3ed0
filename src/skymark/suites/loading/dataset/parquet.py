"""The format ``parquet``: files of `PARQUET_FILE_ROWS` rows in groups of `PARQUET_ROW_GROUP`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from skymark.suites.loading.dataset.canonical import Column, Dataset, Element
from skymark.suites.loading.dataset.files import PerThread, Reader


def rows_of_table(table: Any, columns: Iterable[Column]) -> list[Element]:
    """Turn an Arrow table in skymark's Parquet schema into elements."""
    fields: dict[str, Any] = {"index": table.column("index").to_pylist()}
    for column in columns:
        fields[column.name] = values_of_arrow(column, table.column(column.name))
    return [dict(zip(fields, row, strict=True)) for row in zip(*fields.values(), strict=True)]


def values_of_arrow(column: Column, values: Any) -> Any:
    """Return each row of an Arrow column in skymark's Parquet schema, without a copy."""
    if column.encoding != "raw":
        return [np.frombuffer(value.as_buffer(), np.uint8) for value in values]
    if column.shape == ():
        return values.to_numpy().astype(column.dtype, copy=False)
    rows = values.combine_chunks()
    if column.shape is not None:
        flat = rows.flatten().to_numpy(zero_copy_only=False).astype(column.dtype, copy=False)
        return flat.reshape(len(rows), *column.shape)
    flat = rows.values.to_numpy(zero_copy_only=False).astype(column.dtype, copy=False)
    offsets = rows.offsets.to_pylist()
    return [flat[begin:end] for begin, end in itertools.pairwise(offsets)]


def arrow_table(dataset: Dataset, start: int = 0, stop: int | None = None) -> Any:
    """Return elements ``start:stop`` as an Arrow table: the schema of skymark's columnar files.

    ``index`` is int64, encoded columns are binary, scalars are scalars, and every other array is
    a list (fixed-size for a fixed shape, flattened in C order).
    """
    import pyarrow as pa

    stop = len(dataset) if stop is None else min(stop, len(dataset))
    rows = [dataset[index] for index in range(start, stop)]
    arrays: dict[str, Any] = {"index": pa.array(range(start, stop), pa.int64())}
    for column in dataset.columns:
        values = [row[column.name] for row in rows]
        item = pa.from_numpy_dtype(np.dtype(column.dtype))
        if column.encoding != "raw":
            arrays[column.name] = pa.array([bytes(value) for value in values], pa.binary())
        elif column.shape == ():
            arrays[column.name] = pa.array(np.stack(values), item)
        elif column.shape is None:
            lengths = np.cumsum([0, *(len(value) for value in values)])
            flat = pa.array(np.concatenate(values), item)
            arrays[column.name] = pa.ListArray.from_arrays(pa.array(lengths, pa.int32()), flat)
        else:
            flat = pa.array(np.stack(values).reshape(-1), item)
            size = int(np.prod(column.shape))
            arrays[column.name] = pa.FixedSizeListArray.from_arrays(flat, size)
    return pa.table(arrays)


PARQUET_ROW_GROUP = 64
PARQUET_FILE_ROWS = 128
"""Rows per file, so that readers that share files between workers have several to share."""


class ParquetReader(Reader):
    """Random access into Parquet files; each thread keeps its files and the row group read last."""

    def __init__(self, directory: Path, dataset: Dataset) -> None:
        self._directory = directory
        self._columns = dataset.columns
        self._length = len(dataset)
        self._open = PerThread()

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Element:
        mine = self._open
        group, row = divmod(int(index), PARQUET_ROW_GROUP)
        if getattr(mine, "group", None) != group:
            mine.rows = self._read(group)
            mine.group = group
        return dict(mine.rows[row])

    def _read(self, group: int) -> list[Element]:
        import pyarrow.parquet as pq

        files: dict[int, Any] = self._open.__dict__.setdefault("files", {})
        number, group_in_file = divmod(group, PARQUET_FILE_ROWS // PARQUET_ROW_GROUP)
        if number not in files:
            files[number] = pq.ParquetFile(self._directory / f"{number:05d}.parquet")
        table = files[number].read_row_group(group_in_file)
        return rows_of_table(table, self._columns)


def write_parquet(dataset: Dataset, directory: Path) -> None:
    """Write Parquet files of `PARQUET_FILE_ROWS` rows, ``00000.parquet`` and on."""
    import pyarrow.parquet as pq

    for number, start in enumerate(range(0, len(dataset), PARQUET_FILE_ROWS)):
        table = arrow_table(dataset, start, start + PARQUET_FILE_ROWS)
        path = directory / f"{number:05d}.parquet"
        pq.write_table(table, path, row_group_size=PARQUET_ROW_GROUP)
