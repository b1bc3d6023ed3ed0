"""Elements as files and bytes: the format ``files``, and random access to raw elements.

Scalar columns (labels, sizes) have no files or objects of their own. A reader loads a listing of
them on opening, as an image folder's labels are known from its listing.
"""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from skymark.suites.loading.dataset.canonical import Column, Dataset, Element


def extension(column: Column) -> str:
    """Return the file name ending of a column's bytes."""
    endings = {"bytes": "bin", "jpeg": "jpg", "raw": "npy", "utf8": "txt"}
    return endings.get(column.encoding, column.encoding)


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
    """Read `to_bytes` back without a copy: uint8 ``[length]`` if encoded, else the array.

    It reads only the length of the ``.npy`` header, bytes 8 and 9 of format 1.0. The column knows
    the rest, and parsing it takes twenty times as long as making the array.
    """
    if column.encoding != "raw":
        return np.frombuffer(data, np.uint8)
    begin = 10 + int.from_bytes(data[8:10], "little")
    values = np.frombuffer(data, column.dtype, offset=begin)
    return values if column.shape is None else values.reshape(column.shape)


class Reader(Protocol):
    """Random access to the raw elements of one storage format. Picklable. A `Dataset` is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Element: ...


class PerThread(threading.local):
    """What each thread of a reader holds for itself; a reader in another process begins anew."""

    def __reduce__(self) -> tuple[type[PerThread], tuple[()]]:
        return PerThread, ()


class MemoryReader(Reader):
    """All elements, held in memory in their stored form (encoded images stay encoded)."""

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
    """The scalar columns of all elements, known before any element is read."""

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


def write_files(dataset: Dataset, directory: Path) -> None:
    """Write one file per element and column that is no scalar."""
    reader = FilesReader(directory, dataset)
    columns = Listing(dataset).objects
    for element in dataset:
        for column in columns:
            path = Path(reader.path(element["index"], column))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(to_bytes(column, element[column.name]))
