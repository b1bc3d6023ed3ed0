"""Shared storage formats, each with a writer and a random-access reader of raw elements.

| format      | one element is                                   | read by |
|-------------|--------------------------------------------------|---------|
| `canonical` | a row of memory-mapped columns                   | any Python source |
| `memory`    | a row of columns held in memory                  | the same |
| `files`     | a file per column that is no scalar (``.jpg``)   | the same, image folders |
| `tar`       | the members of one key of a tar shard            | WebDataset and everything tar |
| `parquet`   | a row of row groups of `PARQUET_ROW_GROUP` rows  | Arrow-based libraries |
| `http`      | an object on a server, see `skymark.suites.loading.dataset.objects` | clients |

Scalar columns (labels, sizes) have no files or objects of their own: a listing of them is read when
a reader is opened, as an image folder's labels are known from its listing.
"""

from __future__ import annotations

import io
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from skymark.model.errors import UsageError
from skymark.suites.loading.adapter import Reader
from skymark.suites.loading.dataset.canonical import Column, Dataset, Element

PARQUET_ROW_GROUP = 64
PARQUET_FILE_ROWS = 128
"""Rows per file, so that readers that share files between workers have several to share."""


def extension(column: Column) -> str:
    """Return the file name ending of a column's bytes."""
    endings = {"bytes": "bin", "jpeg": "jpg", "utf8": "txt", "wav": "wav", "raw": "npy"}
    return endings[column.encoding]


def element_path(index: int, column: Column) -> str:
    """Return where one element's column lies below the storage directory, or on a server."""
    return f"{index // 1000:04d}/{index:08d}.{column.name}.{extension(column)}"


def to_bytes(column: Column, value: Any) -> bytes:
    """Serialise one field: its own bytes when encoded, else the ``.npy`` format."""
    if column.encoding != "raw":
        return bytes(np.asarray(value))
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(value, order="C"), (1, 0), allow_pickle=False)
    return buffer.getvalue()


def from_bytes(column: Column, data: bytes | memoryview) -> Any:
    """Undo `to_bytes` without a copy: uint8 ``[length]`` for encoded columns, else the array.

    Of the ``.npy`` header only the length is read, bytes 8 and 9 of format 1.0: the column knows
    the rest, and to parse it takes twenty times as long as to make the array.
    """
    if column.encoding != "raw":
        return np.frombuffer(data, np.uint8)
    begin = 10 + int.from_bytes(data[8:10], "little")
    values = np.frombuffer(data, column.dtype, offset=begin)
    return values if column.shape is None else values.reshape(column.shape)


class MemoryReader(Reader):
    """All elements, held in memory as they are in storage (encoded images stay encoded)."""

    def __init__(self, dataset: Dataset) -> None:
        self._elements = [
            {name: np.array(value) if name != "index" else value for name, value in element.items()}
            for element in dataset
        ]

    def __len__(self) -> int:
        return len(self._elements)

    def __getitem__(self, index: int) -> Element:
        return dict(self._elements[index])


class Listing:
    """What is known of the elements before any of them is read: their scalar columns."""

    def __init__(self, dataset: Dataset) -> None:
        self.objects = tuple(column for column in dataset.columns if column.shape != ())
        """The columns that have a file or an object per element."""
        self._scalars = {
            column.name: np.array(dataset.column(column.name))
            for column in dataset.columns
            if column.shape == ()
        }
        self._length = len(dataset)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Element:
        """Return the element's index and scalars."""
        scalars = {name: values[index] for name, values in self._scalars.items()}
        return {"index": int(index), **scalars}


class FilesReader(Reader):
    """One file per element and column, in a folder per thousand elements; scalars are listed."""

    def __init__(self, directory: Path, dataset: Dataset) -> None:
        self._directory = os.fspath(directory)
        self._listing = Listing(dataset)

    def path(self, index: int, column: Column) -> str:
        """Return the path of one element's column."""
        return f"{self._directory}/{element_path(index, column)}"

    def __len__(self) -> int:
        return len(self._listing)

    def __getitem__(self, index: int) -> Element:
        element = self._listing[index]
        for column in self._listing.objects:
            # A Path per element would cost more than the open itself.
            with open(self.path(index, column), "rb") as file:  # noqa: PTH123
                element[column.name] = from_bytes(column, file.read())
        return element


class ParquetReader(Reader):
    """Random access into Parquet files; each thread keeps its files and the row group read last."""

    def __init__(self, directory: Path, dataset: Dataset) -> None:
        self._directory = directory
        self._columns = dataset.columns
        self._length = len(dataset)
        self._open = threading.local()

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

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _open=threading.local())


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


def write_files(dataset: Dataset, directory: Path) -> None:
    """Write one file per element and column that is no scalar."""
    reader = FilesReader(directory, dataset)
    columns = Listing(dataset).objects
    for element in dataset:
        for column in columns:
            path = Path(reader.path(element["index"], column))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(to_bytes(column, element[column.name]))


def write_tar(dataset: Dataset, directory: Path) -> None:
    """Write tar shards; see `skymark.suites.loading.dataset.tar`."""
    from skymark.suites.loading.dataset import tar

    tar.write_tar(dataset, directory)


def write_parquet(dataset: Dataset, directory: Path) -> None:
    """Write Parquet files of `PARQUET_FILE_ROWS` rows, ``00000.parquet`` and on."""
    import pyarrow.parquet as pq

    for number, start in enumerate(range(0, len(dataset), PARQUET_FILE_ROWS)):
        table = arrow_table(dataset, start, start + PARQUET_FILE_ROWS)
        path = directory / f"{number:05d}.parquet"
        pq.write_table(table, path, row_group_size=PARQUET_ROW_GROUP)


WRITERS: Mapping[str, Callable[[Dataset, Path], None] | None] = {
    "canonical": None,
    "memory": None,
    "files": write_files,
    "tar": write_tar,
    "parquet": write_parquet,
    "http": write_files,
    "http-tar": write_tar,
    "http-parquet": write_parquet,
}
"""How each shared format is written; None where the canonical files serve as they are."""


def open_reader(format: str, storage: Path, dataset: Dataset) -> Any:
    """Open random access to the raw elements in a shared format.

    Raises:
        UsageError: the format has no random access.
    """
    if format == "canonical":
        return dataset
    if format == "memory":
        return MemoryReader(dataset)
    if format == "files":
        return FilesReader(storage, dataset)
    if format == "tar":
        from skymark.suites.loading.dataset.tar import TarReader

        return TarReader(storage, dataset)
    if format == "parquet":
        return ParquetReader(storage, dataset)
    if format == "http":
        from skymark.suites.loading.dataset.objects import HttpReader

        return HttpReader(dataset)
    raise UsageError(f"format {format!r} has no random access; choose another with --set format=")
