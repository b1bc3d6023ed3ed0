"""Parquet files as sources: local, in ranges, or a split of a dataset of the Hub."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from skymark.cache.sources import HUB, chosen_tables, downloaded, parquet_tables, parse, reached
from skymark.model.base import digest_of
from skymark.model.errors import DataError
from skymark.parquet_pages import largest_dictionary
from skymark.resources import needs
from skymark.suites.loading.dataset.sources.data_source import LARGEST_VALUE_BYTES, DataSource, Row

MOST_ROWS_AT_ONCE = 1024
BYTES_AT_ONCE = 16 << 20
"""Size of the rows in memory at a time, a bound for row groups of gigabytes."""
BUFFER_BYTES = 1 << 20
"""Read at a time of each column."""
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


class ParquetFiles(DataSource):
    """Rows of Parquet files, file after file. Columns are fields, except pandas' index."""

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__()
        self.files = tuple(paths)
        with opened(self.files[0]) as file:
            names, index = file.schema_arrow.names, index_columns(file.schema_arrow)
        self.fields = tuple(name for name in names if name not in index)
        for name in sorted(index):
            self.ignored[f"column {name} (index of pandas)"] = 1

    def counts(self) -> Iterator[int]:
        """Count the rows by the files' footers."""
        for path in self.files:
            with opened(path) as file:
                rows = file.metadata.num_rows
            yield rows

    def read(self, fields: Sequence[str], limit: int) -> Iterator[Row]:
        """Read rows in stored order."""
        left = limit
        for path in self.files:
            number = 0
            with opened(path) as file, path.open("rb") as pages:
                missing = [field for field in fields if field not in file.schema_arrow.names]
                if missing:
                    raise DataError(
                        f"{path} has no column {missing[0]!r} as the first file has; rename its "
                        "column, or remove the file"
                    )
                for batch in _batches(file, pages, path, fields):
                    columns = [batch.column(field).to_pylist() for field in fields]
                    for values in zip(*columns, strict=True):
                        if not left:
                            return
                        yield Row(f"{path}, row {number}", tuple(map(_plain, values)))
                        number += 1
                        left -= 1
                if number != file.metadata.num_rows:
                    raise DataError(
                        f"{path} gave {number} of the {file.metadata.num_rows} rows in its footer; "
                        "copy it again"
                    )


def _batches(file: Any, pages: BinaryIO, path: Path, fields: Sequence[str]) -> Iterator[Any]:
    """Yield the rows of a file, each row group after a look at its pages."""
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        try:
            each = largest_dictionary(file.metadata, number, pages, fields, LARGEST_VALUE_BYTES)
        except DataError as error:
            raise DataError(f"{path}: {error}") from error
        rows = min(
            MOST_ROWS_AT_ONCE,
            BYTES_AT_ONCE * group.num_rows // max(1, group.total_byte_size),
            LARGEST_VALUE_BYTES // max(1, each),
        )
        yield from file.iter_batches(max(1, rows), row_groups=[number], columns=list(fields))


def index_columns(schema: Any) -> set[str]:
    """Return the columns of a pandas table's index, which are no values of a row."""
    names = schema.names
    try:
        pandas = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
        said = [one for one in pandas.get("index_columns", ()) if isinstance(one, str)]
    except (ValueError, AttributeError, TypeError):
        said = []
    unnamed = [name for name in names if _PANDAS_INDEX.fullmatch(name)]
    return {*unnamed, *said} & set(names)


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
        with pq.ParquetFile(file, buffer_size=BUFFER_BYTES, pre_buffer=False) as parquet:
            yield parquet
    except faults as error:
        raise DataError(
            f"{name or file} is no whole Parquet file ({error}); copy it again"
        ) from error


def _plain(value: Any) -> Any:
    """Return the bytes of a file that is stored with its path, as in datasets of the Hub."""
    if isinstance(value, dict) and "bytes" in value:
        return value["bytes"]
    return value


@dataclass(frozen=True)
class KnownDataset:
    """A well-known dataset: its configuration, its split, and the meaning of its fields.

    `fields` maps a field's own name to the name that skymark looks for.
    """

    configuration: str = "default"
    split: str = "train"
    fields: tuple[tuple[str, str], ...] = ()


KNOWN_DATASETS = {
    "uoft-cs/cifar10": KnownDataset("plain_text", fields=(("img", "image"),)),
    "frgfm/imagenette": KnownDataset("320px"),
    "salesforce/wikitext": KnownDataset("wikitext-2-raw-v1"),
    "lmms-lab/coco-caption": KnownDataset(split="val", fields=(("answer", "captions"),)),
    "lmms-lab/coco-caption2017": KnownDataset(split="val", fields=(("answer", "captions"),)),
    "reczoo/criteo_x4": KnownDataset(),
}
"""Datasets with a known mapping: CIFAR-10, Imagenette, WikiText, COCO captions, Criteo sample."""


class HubDataset(DataSource):
    """One split of a dataset of the Hub. Files are downloaded when rows are read, not before."""

    is_remote: ClassVar = True

    def __init__(self, data: str) -> None:
        super().__init__()
        reference = parse(data)
        self._name = reference.name
        known = KNOWN_DATASETS.get(self._name.casefold(), KnownDataset())
        _, self._revision, tables = parquet_tables(reference)
        self._tables = chosen_tables(reference, tables, known.configuration, known.split)
        self._paths = [table.path for table in self._tables]
        self.notes.append(f"split {self._tables[0].split}")
        self._own = {new: own for own, new in known.fields}
        with self._remote(self._paths[0]) as file:
            index = index_columns(file.schema_arrow)
            names = [name for name in file.schema_arrow.names if name not in index]
        renamed = {own: new for new, own in self._own.items()}
        self.fields = tuple(renamed.get(name, name) for name in names)

    def counts(self) -> Iterator[int]:
        """Count the rows, which fetches the files' footers only."""
        for path in self._paths:
            with self._remote(path) as file:
                rows = file.metadata.num_rows
            yield rows

    def read(self, fields: Sequence[str], limit: int) -> Iterator[Row]:
        """Read rows in stored order, downloading file after file as needed."""
        own = [self._own.get(field, field) for field in fields]
        left = limit
        for path in self._paths:
            if not left:
                return
            for row in ParquetFiles([downloaded(self._name, path, self._revision)]).read(own, left):
                place = f"{self._name}/{path} {row.place.rpartition(', ')[2]}"
                yield row._replace(place=place)
                left -= 1

    def fingerprint(self) -> str:
        """Return a digest of the revision and the split's files."""
        return digest_of([self._name, self._revision, self._paths])

    def size_bytes(self) -> int | None:
        """Return the size of the split's files; None if the Hub does not report it."""
        sizes = [table.size_bytes for table in self._tables]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @contextmanager
    def _remote(self, path: str) -> Iterator[Any]:
        from huggingface_hub import HfFileSystem

        with reached(f"{HUB}{self._name}"):
            files = HfFileSystem()
            with (
                files.open(f"datasets/{self._name}@{self._revision}/{path}", "rb") as file,
                opened(file, f"{HUB}{self._name}/{path}") as parquet,
            ):
                yield parquet


@cache
def open_hub(data: str) -> HubDataset:
    """Open a dataset of the Hub, resolved to one revision for the life of this process."""
    return HubDataset(data)
