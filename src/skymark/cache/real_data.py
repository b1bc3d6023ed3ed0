"""Real data of runs, kept as sealed Parquet that a suite's own reader wrote once.

What `skymark run --data` names is not read by a library but by the suite, which takes folders of
images, tar shards and the Hub besides tables. So it is the suite's rows that are kept.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from skymark.cache.building import build_once, explained_if_full
from skymark.cache.conversion import CONVERTED, GROWTH, HUB_GROWTH
from skymark.cache.manifest import (
    CONTENT,
    CacheManifest,
    damage,
    digests_of,
    is_whole,
    read_manifest,
    verify_strangers,
    write_manifest,
    write_sources,
)
from skymark.cache.row_groups import write_rows
from skymark.cache.sources import look_at
from skymark.model.base import digest_of
from skymark.model.errors import CacheError, DataError
from skymark.model.named_data import NamedData

LAYOUT = 1
"""Raise when the files are written otherwise, so that old entries are not read."""
SUFFIX = "-rows"
"""Of the names of entries."""
LONGEST_NAME = 60


def real_data_entry(root: Path, data: NamedData) -> Path:
    """Return the directory of the kept rows of data, there or not."""
    digest = digest_of([LAYOUT, data.fingerprint])
    return root.resolve() / CONVERTED / f"{_title(data)}-{digest[:16]}{SUFFIX}"


def build_real_data(
    root: Path,
    data: NamedData,
    *,
    policy: str,
    announce: Callable[[str], None] = lambda _: None,
) -> Path:
    """Keep the rows of data, if no process has, and return the entry.

    Raises:
        DataError: a row cannot be read.
        CacheError: it cannot be written, or the data changed meanwhile.
        StorageFullError: the disk has no room for it.
    """
    import pyarrow as pa

    entry = real_data_entry(root, data)

    def make(part: Path) -> None:
        announce(f"converting {data.address} to Parquet in {entry}")
        content = part / CONTENT
        content.mkdir()
        write_rows(data, content)
        write_sources(part, (look_at(f"train={file}") for file in data.files))
        if data.has_changed():
            raise CacheError(f"{data.address} has changed while it was read; build it again")
        manifest = CacheManifest(
            data_set=_title(data),
            data=data.address,
            fingerprint=data.fingerprint,
            policy=policy,
            versions={"pyarrow": pa.__version__},
            built_at=datetime.now(UTC),
            sealed=True,
            snippet=f"skymark run --data {shlex.quote(data.address)}",
            files=digests_of(content),
        )
        write_manifest(part, manifest)

    growth = GROWTH if data.files else HUB_GROWTH
    needed = None if data.size_bytes is None else int(growth * data.size_bytes)
    with explained_if_full(entry):
        build_once(entry, make, is_whole=is_whole, needed_bytes=needed, announce=announce)
    verify_strangers(entry, announce)
    return entry


def sealed_real_data(
    root: Path, data: NamedData, announce: Callable[[str], None] = lambda _: None
) -> Path:
    """Return the entry of data that was built before, every file compared with its digest.

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
