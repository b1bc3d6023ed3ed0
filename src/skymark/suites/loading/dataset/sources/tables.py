"""Tables and texts in plain files: JSON lines, separated values, lines of text."""

from __future__ import annotations

import csv
import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from skymark.model.errors import DataError
from skymark.suites.loading.dataset.sources.data_source import (
    LARGEST_VALUE_BYTES,
    DataSource,
    Row,
)
from skymark.suites.loading.dataset.sources.paths import suffix_of

CLICK_FIELDS = ("label", *(f"I{k}" for k in range(1, 14)), *(f"C{k}" for k in range(1, 27)))
"""Columns of Criteo's click logs, which have no header."""
LARGEST_FIELD = 1 << 24


class PlainFiles(DataSource):
    """Rows of text files, file after file."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.files = tuple(paths)
        first = next(self._rows(), None)
        if first is None:
            raise DataError(f"{paths[0]} holds no row; give a file that does")
        self.fields = tuple(first[1])

    @abstractmethod
    def _rows_of(self, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        """Read one file: line number and fields of each row."""

    def _rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for path in self.files:
            with _readable(path):
                for number, row in self._rows_of(path):
                    yield f"{path}:{number}", row

    def count(self, limit: int) -> int:
        """Return the number of rows, which reads the files up to the limit."""
        return sum(1 for _ in islice(self._rows(), limit))

    def read(self, fields: Sequence[str], limit: int) -> Iterator[Row]:
        """Read rows in their order."""
        for place, row in islice(self._rows(), limit):
            if missing := [field for field in fields if field not in row]:
                raise DataError(f"{place} has no {missing[0]!r}; add it or remove the row")
            yield Row(place, tuple(row[field] for field in fields))


class TextLines(PlainFiles):
    """Lines of text, each a row of one field; empty lines are left out."""

    def _rows_of(self, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(_lines(file, path), 1):
                if text := line.strip():
                    yield number, {"text": text}


class JsonLines(PlainFiles):
    """JSON objects, one per line; their keys are the fields."""

    def _rows_of(self, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(_lines(file, path), 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise DataError(f"{path}:{number} is no JSON ({error}); mend it") from error
                if not isinstance(row, dict):
                    raise DataError(f"{path}:{number} is no JSON object; mend it")
                yield number, row


class SeparatedValues(PlainFiles):
    """Values separated by commas (``.csv``) or tabs, under a header; click logs need none."""

    def _rows_of(self, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        csv.field_size_limit(LARGEST_FIELD)
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(_lines(file, path), delimiter=separator_of(path))
            fields: Sequence[str] | None = CLICK_FIELDS if is_click_log(path) else None
            for values in reader:
                if not values:
                    continue
                if fields is None:
                    fields = values
                    continue
                if len(values) != len(fields):
                    raise DataError(
                        f"{path}:{reader.line_num} has {len(values)} values under "
                        f"{len(fields)} column names; mend it"
                    )
                yield reader.line_num, dict(zip(fields, values, strict=True))


def _lines(file: TextIO, path: Path) -> Iterator[str]:
    """Yield the lines of a file.

    Raises:
        DataError: one is longer than any value.
    """
    while line := file.readline(LARGEST_VALUE_BYTES):
        if len(line) == LARGEST_VALUE_BYTES:
            raise DataError(f"{path} has a line of more than {LARGEST_VALUE_BYTES:,} characters")
        yield line


def separator_of(path: Path) -> str:
    """Return the sign between values, by the file's name."""
    return "," if suffix_of(path) == ".csv" else "\t"


def is_click_log(path: Path) -> bool:
    """Whether a file's first line looks like one of Criteo's logs: 40 values, the first 0 or 1."""
    with _readable(path), path.open(encoding="utf-8") as file:
        values = file.readline(LARGEST_FIELD).rstrip("\n").split(separator_of(path))
    return len(values) == len(CLICK_FIELDS) and values[0] in {"0", "1"}


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn the errors of reading a text file into one that says what to do."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is no UTF-8 text ({error}); convert it") from error
    except csv.Error as error:
        raise DataError(f"{path} is no table of separated values ({error}); mend it") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
