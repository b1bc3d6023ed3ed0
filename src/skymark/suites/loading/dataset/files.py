"""The format ``files``: one file per element and column, in a folder per thousand elements.

Scalar columns (labels, sizes) have no files or objects of their own: a listing of them is read when
a reader is opened, as an image folder's labels are known from its listing.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from skymark.suites.loading.dataset.canonical import Column, Dataset, Element
from skymark.suites.loading.dataset.element_bytes import element_path, from_bytes, to_bytes
from skymark.suites.loading.dataset.reader import Reader


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
