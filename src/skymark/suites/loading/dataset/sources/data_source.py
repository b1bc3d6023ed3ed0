"""The base of every source of real data: named fields, read row by row in a stable order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from skymark.suites.loading.dataset.sources.paths import files_bytes, files_fingerprint

LARGEST_VALUE_BYTES = 256 << 20
"""Largest image, sound, text or line of a source; what is larger is refused, not read."""


class Row(NamedTuple):
    """The requested fields of one row, and its place, for messages."""

    place: str
    values: tuple[Any, ...]


class DataSource(ABC):
    """Rows of named fields. Opening one is quick: no row is read before it is asked for.

    Images and sounds are the bytes of their files; labels are numbers or names.
    """

    fields: tuple[str, ...]
    files: tuple[Path, ...] = ()
    """Those of this disk that it reads; none where it lies elsewhere."""
    is_remote: ClassVar[bool] = False
    """Whether reading a row means to download much, which planning must not."""

    @abstractmethod
    def count(self, limit: int) -> int:
        """Return the number of rows, or `limit` if there are more."""

    @abstractmethod
    def read(self, fields: Sequence[str], limit: int) -> Iterator[Row]:
        """Read these fields of the first `limit` rows, in order.

        Raises:
            DataError: a row cannot be read; the message says which.
        """

    def fingerprint(self) -> str:
        """Return a digest that changes when the data changes: of files' names, sizes and times."""
        return files_fingerprint(self.files)

    def size_bytes(self) -> int | None:
        """Return the size of the files; None where nobody tells it."""
        return files_bytes(self.files)

    def check(self, field: str, limit: int) -> None:
        """Look for damage that shows without decoding, in a field of the first `limit` rows.

        Raises:
            DataError: a value is damaged; the message says which.
        """
        del field, limit
