"""Shared storage formats, each with its writer and its random-access reader of raw elements.

| format                     | one element is                                 | read by            |
|----------------------------|------------------------------------------------|--------------------|
| `canonical`                | a row of memory-mapped columns                 | any Python source  |
| `memory`                   | a row of columns held in memory                | any Python source  |
| `computed`                 | computed from its index, stored nowhere        | any Python source  |
| `files`                    | a file per column that is no scalar (``.jpg``) | any Python source  |
| `tar`                      | the members of one key of a tar shard          | tar streams        |
| `parquet`                  | a row of a row group                           | Arrow's users      |
| `http`                     | an object on a server per column               | clients of objects |
| `http-tar`, `http-parquet` | as `tar` and `parquet`, on a server            | streaming clients  |
| `s3`                       | as `http`, in a bucket                         | clients of S3      |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from skymark.model.errors import UsageError
from skymark.suites.loading.dataset.canonical import Dataset
from skymark.suites.loading.dataset.files import FilesReader, MemoryReader, Reader, write_files
from skymark.suites.loading.dataset.objects import HttpReader
from skymark.suites.loading.dataset.parquet import ParquetReader, write_parquet
from skymark.suites.loading.dataset.tar import TarReader, write_tar
from skymark.suites.loading.storage_formats import BUCKET


class SharedFormat(NamedTuple):
    """The writer and the reader of one format."""

    write: Callable[[Dataset, Path], None] | None
    """None if the canonical files serve unchanged."""
    open: Callable[[Path, Dataset], Reader] | None
    """None where there is no random access."""


FORMATS: Mapping[str, SharedFormat] = {
    "canonical": SharedFormat(None, lambda _, dataset: dataset),
    "memory": SharedFormat(None, lambda _, dataset: MemoryReader(dataset)),
    "computed": SharedFormat(None, lambda _, dataset: dataset),
    "files": SharedFormat(write_files, FilesReader),
    "tar": SharedFormat(write_tar, TarReader),
    "parquet": SharedFormat(write_parquet, ParquetReader),
    "http": SharedFormat(write_files, lambda _, dataset: HttpReader(dataset)),
    "http-tar": SharedFormat(write_tar, None),
    "http-parquet": SharedFormat(write_parquet, None),
    "s3": SharedFormat(lambda dataset, directory: write_files(dataset, directory / BUCKET), None),
}
"""Those named in `skymark.suites.loading.storage_formats.SHARED`, which planning asks."""


def open_reader(format: str, storage: Path, dataset: Dataset) -> Reader:
    """Open random access to the raw elements in a shared format.

    Raises:
        UsageError: the format has no random access.
    """
    shared = FORMATS.get(format)
    if shared is None or shared.open is None:
        raise UsageError(
            f"format {format!r} has no random access; choose another with --set format="
        )
    return shared.open(storage, dataset)
