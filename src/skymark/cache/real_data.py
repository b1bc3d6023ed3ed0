"""Real data of runs, stored as sealed Parquet of a reader's rows, every value unchanged.

The suite, not a library, reads the data of `skymark run --data`: folders of images, tar shards,
the Hub and tables. So the cache stores the suite's rows.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from skymark.cache.building import build_entry
from skymark.cache.conversion import CONVERTED, GROUP_BYTES, GROWTH, HUB_GROWTH, SHARD_BYTES
from skymark.cache.manifest import (
    CachedFile,
    CacheManifest,
    damage,
    read_manifest,
    write_sources,
)
from skymark.cache.sources import look_at
from skymark.model.base import digest_of
from skymark.model.data import NamedData
from skymark.model.errors import CacheError, DataError

GROUP_ROWS = 10_000
VALUE_BYTES = 8
"""Approximate size of a value other than text or bytes."""


def write_rows(data: NamedData, directory: Path) -> None:
    """Write all rows in order, in one pass; start another file when types change.

    Types are not widened over files, so reading returns exactly the reader's values.

    Raises:
        DataError: a row cannot be read, or its values cannot be kept as Parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    number, written, schema = 0, 0, None
    with ExitStack() as stack:
        for place, table in _tables(data):
            try:
                if table.schema != schema or written >= SHARD_BYTES:
                    stack.close()
                    path = directory / f"rows-{number:05d}.parquet"
                    writer = stack.enter_context(pq.ParquetWriter(path, table.schema))
                    number, written, schema = number + 1, 0, table.schema
                writer.write_table(table, row_group_size=table.num_rows)
            except pa.ArrowException as error:
                raise _unkept(place, error) from error
            written += table.nbytes
    if not number:
        raise DataError(f"{data.address} holds no row; give data that does")


def _tables(data: NamedData) -> Iterator[tuple[str, Any]]:
    """Yield a table for each row group, with the index of its first row."""
    import pyarrow as pa

    for places, rows in _groups(data.rows()):
        columns = zip(*rows, strict=True)
        try:
            arrays = [pa.array(column) for column in columns]
        except (pa.ArrowException, OverflowError) as error:
            raise _unkept(places, error) from error
        yield places, pa.table(dict(zip(data.fields, arrays, strict=True)))


def _groups(
    rows: Iterable[tuple[str, tuple[Any, ...]]],
) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """Gather rows into groups of about `GROUP_BYTES`."""
    first, held, held_bytes = "", list[tuple[Any, ...]](), 0
    for place, values in rows:
        first = first or place
        held.append(values)
        held_bytes += sum(map(_bytes_of, values))
        if held_bytes >= GROUP_BYTES or len(held) >= GROUP_ROWS:
            yield first, held
            first, held, held_bytes = "", [], 0
    if held:
        yield first, held


def _bytes_of(value: Any) -> int:
    return len(value) if isinstance(value, (bytes, str, list)) else VALUE_BYTES


def _unkept(place: str, error: Exception) -> DataError:
    return DataError(
        f"{place} and the rows after it cannot be kept as Parquet ({error}); give a field one "
        "type, or take --cache-policy per-job or shared"
    )


LAYOUT = 1
"""Raise when the files are written otherwise, so that old entries are not read."""
SUFFIX = "-rows"
"""Of the names of entries."""
LONGEST_NAME = 60


def real_data_entry(root: Path, data: NamedData) -> Path:
    """Return the directory of the stored rows of data, whether it exists or not."""
    digest = digest_of([LAYOUT, data.fingerprint])
    return root.resolve() / CONVERTED / f"{_title(data)}-{digest[:16]}{SUFFIX}"


def build_real_data(
    root: Path,
    data: NamedData,
    announce: Callable[[str], None] = lambda _: None,
) -> Path:
    """Store the rows of data, if no process has, and return the entry.

    Raises:
        DataError: a row cannot be read.
        CacheError: it cannot be written, or the data changed meanwhile.
        StorageFullError: the disk has no room for it.
    """
    entry = real_data_entry(root, data)

    def fill(content: Path) -> None:
        announce(f"converting {data.address} to Parquet in {entry}")
        write_rows(data, content)
        write_sources(content.parent, (look_at(f"train={file}") for file in data.files))
        if data.has_changed():
            raise CacheError(f"{data.address} has changed while it was read; build it again")

    def describe(files: dict[str, CachedFile]) -> CacheManifest:
        return CacheManifest(
            data_set=_title(data),
            data=data.address,
            fingerprint=data.fingerprint,
            versions={"pyarrow": version("pyarrow")},
            built_at=datetime.now(UTC),
            sealed=True,
            files=files,
        )

    growth = GROWTH if data.files else HUB_GROWTH
    needed_bytes = None if data.size_bytes is None else int(growth * data.size_bytes)
    build_entry(entry, fill, describe, needed_bytes=needed_bytes, announce=announce)
    return entry


def sealed_real_data(
    root: Path, data: NamedData, announce: Callable[[str], None] = lambda _: None
) -> Path:
    """Return the prebuilt entry of data, after comparing every file with its digest.

    Raises:
        DataError: there is none, it is damaged, or the data has changed since; the message has the
            command that builds it.
    """
    entry = real_data_entry(root, data)
    build = (
        f"skymark cache build --data {shlex.quote(data.address)} --cache-policy prebuilt "
        f"--cache-root {shlex.quote(str(root))}"
    )
    if entry.is_dir():
        announce(f"comparing {entry} with its digests")
        manifest = read_manifest(entry)
        wrong = ["its manifest is damaged"] if manifest is None else damage(entry, manifest)
        if wrong:
            raise DataError(
                f"{entry} is not what was built: {wrong[0]}; remove it with `skymark cache clean "
                f"{entry.relative_to(root.resolve())}`, then build it again: {build}"
            )
        return entry
    for other in sorted(entry.parent.glob(f"*{SUFFIX}")):
        manifest = read_manifest(other)
        if manifest is not None and manifest.data == data.address:
            raise DataError(
                f"{data.address} has changed since {other} was built; build it: {build}"
            )
    raise DataError(f"there is no sealed cache of {data.address} in {root}; build it: {build}")


def _title(data: NamedData) -> str:
    last = data.address.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9_-]+", "_", last).strip("_")[:LONGEST_NAME] or "data"
