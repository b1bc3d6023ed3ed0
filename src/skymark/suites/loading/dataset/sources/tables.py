"""Tables and texts in plain files, compressed or not: JSON, separated values, lines of text."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from skymark.model.errors import DataError
from skymark.suites.loading.dataset.sources.data_source import (
    LARGEST_VALUE_BYTES,
    DataSource,
    Row,
)
from skymark.suites.loading.dataset.sources.paths import kind_of

CLICK_FIELDS = ("label", *(f"I{k}" for k in range(1, 14)), *(f"C{k}" for k in range(1, 27)))
"""Columns of Criteo's click logs, which have no header."""
LARGEST_FIELD = 1 << 24
LARGEST_JSON_BYTES = 1 << 30
"""Largest file with a single JSON array, which is read whole."""
SEPARATORS = (",", ";", "\t", "|")


class FileRow(NamedTuple):
    """One row of a file: its line, and its fields or the reason why it has none."""

    line: int
    values: dict[str, Any]
    damage: DataError | None = None


class PlainFiles(DataSource):
    """Rows of text files, file after file."""

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__()
        self.files = tuple(paths)
        damage: DataError | None = None
        for _, first in self._records():
            if first.damage is None:
                break
            damage = damage or first.damage
        else:
            raise damage or DataError(f"{paths[0]} holds no row; give a file that does")
        self.fields = tuple(first.values)
        if empty := sum(path.stat().st_size == 0 for path in paths):
            self.ignored["empty files"] = empty

    @abstractmethod
    def _records_of(self, path: Path) -> Iterator[FileRow]:
        """Read one file row by row."""

    def _records(self) -> Iterator[tuple[Path, FileRow]]:
        for path in self.files:
            with _readable(path):
                for record in self._records_of(path):
                    yield path, record

    def counts(self) -> Iterator[int]:
        """Count rows, which reads the files."""
        for _ in self._records():
            yield 1

    def read(self, fields: Sequence[str], limit: int) -> Iterator[Row]:
        """Read rows in their order."""
        for path, record in islice(self._records(), limit):
            place, damage = f"{path}:{record.line}", record.damage
            if damage is None and (lacking := [one for one in fields if one not in record.values]):
                damage = DataError(f"{place} has no {lacking[0]!r}; add it or remove the row")
            yield Row(place, () if damage else tuple(map(record.values.get, fields)), damage)


class TextLines(PlainFiles):
    """Lines of text, each a row of one field, without empty lines."""

    noun = "texts"

    def _records_of(self, path: Path) -> Iterator[FileRow]:
        with opened_text(path) as file:
            for number, line in enumerate(_lines(file, path), 1):
                if text := line.strip():
                    yield FileRow(number, {"text": text})


class JsonLines(PlainFiles):
    """JSON objects, one per line; their keys are the fields."""

    def _records_of(self, path: Path) -> Iterator[FileRow]:
        return _json_lines(path)


class JsonFiles(PlainFiles):
    """JSON files: arrays of objects, or an object per line."""

    def _records_of(self, path: Path) -> Iterator[FileRow]:
        with opened_text(path) as file:
            begin = file.read(1)
            while begin.isspace():
                begin = file.read(1)
        if begin != "[":
            yield from _json_lines(path)
            return
        with opened_text(path) as file:
            text = file.read(LARGEST_JSON_BYTES + 1)
        if len(text) > LARGEST_JSON_BYTES:
            raise DataError(f"{path} is one JSON array of over 1.07 GB; write an object per line")
        try:
            rows = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path} is no JSON ({error}); mend it") from error
        for number, row in enumerate(rows, 1):
            yield _checked(row, number, path)


def _json_lines(path: Path) -> Iterator[FileRow]:
    with opened_text(path) as file:
        for number, line in enumerate(_lines(file, path), 1):
            if line.strip():
                yield _record(line, number, path)


def _record(line: str, number: int, path: Path) -> FileRow:
    try:
        return _checked(json.loads(line), number, path)
    except (ValueError, RecursionError) as error:
        damage = DataError(f"{path}:{number} is no JSON ({error}); mend it")
        damage.__cause__ = error
        return FileRow(number, {}, damage)


def _checked(row: Any, number: int, path: Path) -> FileRow:
    if isinstance(row, dict):
        return FileRow(number, row)
    return FileRow(number, {}, DataError(f"{path}:{number} is no JSON object; mend it"))


class SeparatedValues(PlainFiles):
    """Values separated by commas, semicolons, tabs or bars under a header.

    Click logs need no header. A column without a name, such as pandas' index, is ignored.
    """

    def _records_of(self, path: Path) -> Iterator[FileRow]:
        csv.field_size_limit(LARGEST_FIELD)
        with opened_text(path, newline="") as file:
            reader = csv.reader(_lines(file, path), delimiter=separator_of(path))
            fields: Sequence[str] | None = CLICK_FIELDS if is_click_log(path) else None
            for values in reader:
                if not values:
                    continue
                if fields is None:
                    fields = [name.strip() for name in values]
                    _require_names(fields, path)
                    if "" in fields:
                        self.ignored[UNNAMED] = 1
                    continue
                if len(values) != len(fields):
                    damage = DataError(
                        f"{path}:{reader.line_num} has {len(values)} values under "
                        f"{len(fields)} column names; mend it"
                    )
                    yield FileRow(reader.line_num, {}, damage)
                    continue
                row = dict(zip(fields, values, strict=True))
                row.pop("", None)
                yield FileRow(reader.line_num, row)


UNNAMED = "column without a name"


def _require_names(fields: Sequence[str], path: Path) -> None:
    if twice := [name for name in fields if fields.count(name) > 1]:
        raise DataError(f"{path} has several columns named {twice[0]!r}; name each by itself")


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
    """Return the separator of values: a tab by the file's name, or the commonest in its header."""
    if kind_of(path) != ".csv":
        return "\t"
    with _readable(path), opened_text(path) as file:
        header = file.readline(LARGEST_FIELD)
    unquoted = "".join(header.split('"')[::2])
    return max(SEPARATORS, key=unquoted.count)


def is_click_log(path: Path) -> bool:
    """Whether a file's first line looks like Criteo's logs: 40 values, the first 0 or 1."""
    with _readable(path), opened_text(path) as file:
        values = file.readline(LARGEST_FIELD).rstrip("\n").split(separator_of(path))
    return len(values) == len(CLICK_FIELDS) and values[0] in {"0", "1"}


def _zstd(path: Path) -> Any:
    """Open a file of Zstandard frames. Arrow refuses truncated files."""
    import pyarrow as pa

    return pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")


DECOMPRESSORS: Mapping[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _zstd,
}


def opened_text(path: Path, newline: str | None = None) -> TextIO:
    """Open a text file in UTF-8, with or without a byte order mark, decompressed by its suffix."""
    decompressed = DECOMPRESSORS.get(path.suffix.lower())
    file = path.open("rb") if decompressed is None else decompressed(path)
    return io.TextIOWrapper(file, encoding="utf-8-sig", newline=newline)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn errors of reading a text file into an error with the next step."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is no UTF-8 text ({error}); convert it") from error
    except csv.Error as error:
        raise DataError(f"{path} is no table of separated values ({error}); mend it") from error
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{path} is no whole compressed file ({error}); copy it again") from error
    except OSError as error:
        advice = "check that you may read it, and copy it again or remove it"
        raise DataError(f"{path} cannot be read: {error}; {advice}") from error
