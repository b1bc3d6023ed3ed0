"""Elements as rows of an Arrow table: the schema of skymark's columnar files."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from skymark.suites.loading.dataset.canonical import Column, Dataset, Element


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
