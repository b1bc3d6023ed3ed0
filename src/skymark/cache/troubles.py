"""Troubles of a cache: the library's message, the cause and the cure."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from skymark.cache.location import owner_of
from skymark.cache.manifest import (
    LOCK,
    MANIFEST,
    SOURCES,
    CacheManifest,
    damage,
    read_manifest,
    sources_of,
)
from skymark.cache.sources import WRONG, changes
from skymark.model.base import Frozen
from skymark.model.data import NamedData
from skymark.model.errors import DataError
from skymark.model.sizes import size_text
from skymark.plain_files import entries_below, read_regular

LEAST_FREE_BYTES = 100_000_000
"""Of a disk that counts as full."""
INFO = "dataset_info.json"
ARROW_END = b"\x00\x00\x00\x00"
"""End-of-stream mark of an Arrow stream, with a length of zero (Arrow columnar format, IPC)."""
HALF = ".incomplete"
"""Suffix of unfinished files of `datasets` and the Hub's client."""

UNREADABLE = "Can't read {}"
DENIED = "Permission denied: {}"
FULL = "No space left on device"
MOST_SOURCES = 20
"""Most sources of one cache to list by name; the rest are counted."""
ANEW = "skymark cache clean its entry, then build it again"


class Trouble(Frozen):
    """Fault of a cache."""

    message: str
    """A library's message for this fault."""
    path: str
    cause: str
    action: str


def troubles(
    directory: Path, open_data: Callable[[str], NamedData | None] = lambda _: None
) -> Iterator[Trouble]:
    """Look at a cache, skymark's or a library's own, and yield its faults.

    Args:
        directory: of the cache.
        open_data: opens the data of runs by its address; None where nobody reads it.
    """
    yield from _of_disk(directory)
    manifest = read_manifest(directory)
    if manifest is not None:
        for text in damage(directory, manifest):
            name = next((file for file in manifest.files if file in text), directory.name)
            yield Trouble(
                message=UNREADABLE.format(Path(name).name),
                path=str(directory),
                cause=text,
                action=ANEW,
            )
        yield from _of_sources(directory, manifest, open_data)
    elif (directory / MANIFEST).exists():
        yield Trouble(
            message=UNREADABLE.format(MANIFEST),
            path=str(directory / MANIFEST),
            cause="the manifest is damaged",
            action=ANEW,
        )
    yield from _of_files(directory)


def _of_sources(
    directory: Path, manifest: CacheManifest, open_data: Callable[[str], NamedData | None]
) -> Iterator[Trouble]:
    """Find sources that have changed since the build of the cache."""
    try:
        changed = list(changes(sources_of(directory, manifest)))
    except ValueError:
        cause = f"its list of sources ({SOURCES}) is damaged"
        yield Trouble(message=WRONG, path=str(directory), cause=cause, action=ANEW)
        return
    for number, change in enumerate(changed[:MOST_SOURCES], start=1):
        more = len(changed) - MOST_SOURCES if number == MOST_SOURCES else 0
        others = f"; {more} more sources are not what they were" if more > 0 else ""
        yield Trouble(
            message=change.message,
            path=str(directory),
            cause=f"{change.text}, since the cache was built{others}",
            action=change.action,
        )
    if changed or manifest.data is None:
        return
    try:  # files that came since are in no list
        data = open_data(manifest.data)
        if data is None or data.fingerprint == manifest.fingerprint:
            return
        cause = f"{manifest.data} has other files than when the cache was built"
        action = "build it again, or remove what came since; runs do not take this cache"
    except DataError as error:
        cause = f"{manifest.data} cannot be read any more: {error}"
        action = "bring it back; until then runs that name it end with an error"
    yield Trouble(message=WRONG, path=str(directory), cause=cause, action=action)


def _of_disk(directory: Path) -> Iterator[Trouble]:
    usage, inodes = shutil.disk_usage(directory), os.statvfs(directory)
    if usage.free < LEAST_FREE_BYTES:
        cause = f"{size_text(usage.free)} of {size_text(usage.total)} are free"
    elif inodes.f_files and not inodes.f_favail:
        cause = "the file system has no inode left: too many small files"
    else:
        return
    yield Trouble(
        message=FULL,
        path=str(directory),
        cause=cause,
        action="skymark cache clean, or a larger disk by --cache-root",
    )


def _of_files(directory: Path) -> Iterator[Trouble]:
    for folder, folders, _ in os.walk(directory):
        for name in folders:
            place = Path(folder, name)
            if not os.access(place, os.R_OK | os.X_OK):
                yield _denied(place)
            elif name.endswith(HALF):
                yield Trouble(
                    message=UNREADABLE.format(f"{name.removesuffix(HALF)[:12]}…"),
                    path=str(place),
                    cause="a process was killed, or still works, while it built the cache here",
                    action="remove it if no process uses it; skymark's own builds appear complete",
                )
    for name, entry in sorted(entries_below(directory)):
        path = directory / name
        if entry.is_symlink():
            if not path.exists():
                yield Trouble(
                    message=UNREADABLE.format(path.name),
                    path=str(path),
                    cause=f"it is a link to {path.readlink()}, which is not there",
                    action="the cache below was removed while it was used: start the job again",
                )
        elif not os.access(path, os.R_OK) or (name.endswith(LOCK) and not os.access(path, os.W_OK)):
            yield _denied(path)
        elif name.endswith(".arrow"):
            yield from _of_arrow(path, entry.stat().st_size)


def _denied(path: Path) -> Trouble:
    mode = f"{path.lstat().st_mode & 0o7777:o}"
    lock = "a lock that another user made; " if path.name.endswith(LOCK) else ""
    return Trouble(
        message=DENIED.format(path.name),
        path=str(path),
        cause=f"{lock}it is {owner_of(path)}'s, with mode {mode}, and you are neither",
        action=f"its owner: chmod -R g+rX {path.parent}; or --cache-policy shared, whose files the "
        "group may read and whose locks are each job's own",
    )


def _of_arrow(path: Path, size: int) -> Iterator[Trouble]:
    """Find a truncated Arrow file, by its end and by the size that `datasets` noted."""
    cause = None
    with path.open("rb") as file:
        file.seek(max(0, size - len(ARROW_END)))
        if size < len(ARROW_END) or file.read() != ARROW_END:
            cause = f"it ends in the middle, after {size:,} bytes"
    if cause is None and (least := _least_bytes(path)) is not None and size < least:
        cause = f"it has {size:,} bytes, and its rows, as {INFO} says, {least:,}"
    if cause is not None:
        yield Trouble(
            message=UNREADABLE.format(path.name),
            path=str(path),
            cause=f"{cause}: another process wrote it at the same time, or died while it did",
            action=f"remove {path.parent}, and give jobs that start at once --cache-policy shared",
        )


def _least_bytes(path: Path) -> int | None:
    """Return the bytes of the rows in a split's only file, as `datasets` noted them."""
    try:
        info = json.loads(read_regular(path.parent / INFO))
        split = info["splits"][path.stem.rpartition("-")[2]]
        return None if split.get("shard_lengths") else int(split["num_bytes"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
