"""The base of every source of real data: named fields, read row by row in a stable order."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from skymark.model.data import LeftOut
from skymark.model.errors import DataError, SkymarkError
from skymark.suites.loading.dataset.sources.paths import files_bytes, files_fingerprint

LARGEST_VALUE_BYTES = 256 << 20
"""Largest image, sound, text or line of a source; larger ones are refused unread."""


class Row(NamedTuple):
    """The requested fields of one row, and its location, for messages."""

    place: str
    values: tuple[Any, ...]
    damage: DataError | None = None
    """Why the values cannot be read, although the rows behind can; None where they can be."""


class DataSource(ABC):
    """Rows of named fields. Opening a source is quick: it reads rows only on request.

    Images and sounds are the bytes of their files; labels are numbers or names.
    """

    fields: tuple[str, ...]
    noun: str = "rows"
    """Name of its rows, for messages."""
    files: tuple[Path, ...] = ()
    """Files of this disk that it reads; empty for remote data."""
    is_remote: ClassVar[bool] = False
    """Whether reading a row means to download much, which planning must not."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        """Choices that were made when it was opened, such as that of a split."""
        self.ignored: Counter[str] = Counter()
        """Files and columns that are no part of a row, by the reason."""
        self.ignored_inside: Counter[str] = Counter()
        """Ignored members of archives, by the reason. Each count of the rows finds them anew."""

    @abstractmethod
    def counts(self) -> Iterator[int]:
        """Count rows: yield numbers of further rows, in pieces that are quick to count.

        Raises:
            DataError: a file is damaged such that rows would be missed.
        """

    @abstractmethod
    def read(self, fields: Sequence[str], limit: int) -> Iterator[Row]:
        """Read these fields of the first `limit` rows, in order.

        Raises:
            DataError: a file cannot be read on; a row that alone is damaged says so itself.
        """

    def count(self, limit: int) -> int:
        """Return the number of rows, or `limit` if there are more."""
        rows = 0
        for more in self.counts():
            rows += more
            if rows >= limit:
                return limit
        return rows

    def fingerprint(self) -> str:
        """Return a digest of the files' names, sizes and times, which changes with the data."""
        return files_fingerprint(self.files)

    def size_bytes(self) -> int | None:
        """Return the size of the files; None if unknown."""
        return files_bytes(self.files)

    def left_out(self) -> list[LeftOut]:
        """Return the parts of the data outside rows."""
        ignored = self.ignored + self.ignored_inside
        return [LeftOut(count=count, what=what) for what, count in sorted(ignored.items())]


class WholeRows(DataSource):
    """The undamaged rows of a source, which can be read and converted."""

    def __init__(self, source: DataSource, converts: Any) -> None:
        """Set up without reading a row.

        Args:
            source: the rows.
            converts: called with a `Row` of all fields; raises DataError where it is damaged.
        """
        super().__init__()
        self._source, self._converts = source, converts
        self.fields, self.files, self.noun = source.fields, source.files, source.noun
        self._damaged: set[int] = set()
        self._looked_at = 0

    @property
    def damaged(self) -> int:
        """The number of damaged rows among the rows read."""
        return len(self._damaged)

    def counts(self) -> Iterator[int]:
        """Count whole rows, each of which is converted once."""
        for number, row in enumerate(self._source.read(self.fields, sys.maxsize)):
            if number >= self._looked_at:
                self._look_at(number, row)
            yield int(number not in self._damaged)

    def _look_at(self, number: int, row: Row) -> None:
        self._looked_at = number + 1
        try:
            if row.damage is not None:
                raise row.damage
            self._converts(row)
        except DataError:
            self._damaged.add(number)

    def read(self, fields: Sequence[str], limit: int) -> Iterator[Row]:
        """Read whole rows in their order."""
        self.count(limit)
        rows = enumerate(self._source.read(fields, sys.maxsize))
        whole = (row for number, row in rows if number not in self._damaged)
        yield from islice(whole, limit)

    def fingerprint(self) -> str:
        """Return the digest of all rows, damaged or not."""
        return self._source.fingerprint()

    def size_bytes(self) -> int | None:
        """Return the size of all files."""
        return self._source.size_bytes()

    def left_out(self) -> list[LeftOut]:
        """Return the skipped rows and files, damaged rows first."""
        others = self._source.left_out()
        return [LeftOut(count=self.damaged, what="damaged"), *others] if self.damaged else others


@contextmanager
def reading(place: str) -> Iterator[None]:
    """Turn any fault of a reader or decoder into a DataError with the location.

    Decoders raise errors of every kind for damaged bytes, including errors of C libraries.
    """
    try:
        yield
    except SkymarkError:
        raise
    except Exception as error:
        cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise DataError(
            f"{place} cannot be read ({cause[:300]}); copy it again, remove it, or take the rest "
            "with --skip-damaged"
        ) from error
