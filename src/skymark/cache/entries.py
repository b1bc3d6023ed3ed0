"""Entries of the cache, their cleaning, and the troubles of each with cause and cure."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from skymark.cache.building import (
    LOCK,
    MANIFEST,
    PART,
    REMOVED,
    SOURCES,
    CacheManifest,
    damage,
    read_manifest,
    remove,
    sources_of,
)
from skymark.cache.conversion import CONVERTED
from skymark.cache.location import owner_of
from skymark.cache.providing import PLAIN, PREPARED
from skymark.cache.sharing import (
    CLAIMS,
    JOBS,
    claim_name,
    claims_beside,
    command_runs,
    held_by,
    removing,
    sweep_jobs,
    users_of,
)
from skymark.cache.sources import WRONG, changes
from skymark.leases import Leases
from skymark.model.base import Count, Frozen, Moment
from skymark.model.data import NamedData
from skymark.model.errors import DataError, UsageError
from skymark.model.sizes import size_text
from skymark.plain_files import entries_below, read_regular

RUNS = "runs"
"""Name by which a run leases all that skymark made for itself: data sets, pixel maps, venvs."""
FOLDERS = {
    "datasets": "data set",
    "webdataset": "data set",
    "clip/samples": "index",
    "clip/pixels": "pixel map",
    "venvs": "venv",
    "revisions": "revision",
    PREPARED: "prepared",
    CONVERTED: "converted",
    JOBS: "job",
}
"""Kind of entry by the folder of the root that it lies in."""
OF_RUNS = {"data set", "index", "pixel map", "venv", "revision"}
"""Kinds that runs use."""
FINGERPRINT = re.compile(r"^(?P<title>.+?)-(?P<fingerprint>[0-9a-f]{12,32})(?P<form>--?[\w-]+)?$")


class CacheEntry(Frozen):
    """Current state of a directory of the cache."""

    path: Path
    name: str
    """Below the root, such as ``prepared/train-0123456789abcdef``."""
    kind: str
    data_set: str
    fingerprint: str | None
    size_bytes: Count
    last_used: Moment
    owner: str
    lease: str | None
    """Builder or user of the entry; None without one."""
    sealed: bool = False


def entries(root: Path) -> Iterator[CacheEntry]:
    """Yield all entries below a root, kind by kind, by name."""
    for folder, kind in FOLDERS.items():
        for path in sorted((root / folder).glob("*")):
            is_entry = not path.name.startswith(".") and path.suffix not in {".lock", ".done"}
            if is_entry and (entry := _entry(root, path, kind)):
                yield entry
    if (root / PLAIN).is_dir() and (entry := _entry(root, root / PLAIN, "staggered")):
        yield entry


def leftovers(root: Path) -> Iterator[Path]:
    """Yield unfinished builds and removals, of live and of dead processes."""
    for folder in FOLDERS:
        for path in sorted((root / folder).glob(".*")):
            if path.suffix in {PART, REMOVED}:
                yield path


def lease_of(root: Path, path: Path, kind: str) -> str | None:
    """Return the holder of an entry, in words; None without one."""
    if kind == "job":
        leases = Leases(path.parent / CLAIMS)
        if not leases.is_held(path.name):
            return "its command, which goes on" if command_runs(path) else None
        holder = leases.holder(path.name)
        return "its job" if holder is None else holder.title
    leases = claims_beside(path)
    if leases.is_held(claim_name(path)):
        return f"{held_by(leases, path)} builds it"
    users = users_of(path, leases)
    if kind in OF_RUNS:
        users += users_of(root / RUNS)
    if not users:
        return None
    named = next((user.title for user in users if user is not None), "another process")
    return named if len(users) == 1 else f"{named} and {len(users) - 1} more"


def size_of(path: Path) -> int:
    """Return the bytes of all files below a path, without following links."""
    try:
        if not path.is_dir() or path.is_symlink():
            return path.lstat().st_size
    except OSError:
        return 0
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(f"{folder}/{name}").st_size
            except OSError:  # it is being removed
                continue
    return total


def _entry(root: Path, path: Path, kind: str) -> CacheEntry | None:
    try:
        used_s = path.stat().st_mtime
    except OSError:
        return None
    match = FINGERPRINT.match(path.stem if path.is_file() else path.name)
    manifest = read_manifest(path) if kind in {"prepared", "converted"} else None
    title = path.name if match is None else f"{match['title']}{match['form'] or ''}"
    return CacheEntry(
        path=path,
        name=str(path.relative_to(root)),
        kind=kind,
        data_set=title if manifest is None else manifest.data_set,
        fingerprint=manifest.fingerprint
        if manifest is not None
        else (None if match is None else match["fingerprint"]),
        size_bytes=size_of(path),
        last_used=datetime.fromtimestamp(used_s, UTC),
        owner=owner_of(path),
        lease=lease_of(root, path, kind),
        sealed=manifest is not None and manifest.sealed,
    )


class Cleaned(Frozen):
    """Outcome of cleaning an entry."""

    name: str
    size_bytes: int
    kept: str | None = None
    """Reason why the entry was not removed."""


def clean(
    root: Path,
    names: Collection[str] = (),
    kinds: Collection[str] = (),
    unused_days: float = 0,
    *,
    dry: bool = False,
) -> Iterator[Cleaned]:
    """Remove entries without a live user; yields each as it goes.

    Args:
        root: directory of the caches.
        names: names of the entries, as in `entries`; empty for all.
        kinds: kinds of the entries; empty for all.
        unused_days: leave entries that were used in this time.
        dry: remove nothing, and list the entries that would be removed.

    Raises:
        UsageError: there is no such entry.
    """
    there = list(entries(root))
    if unknown := set(names) - {entry.name for entry in there}:
        raise UsageError(f"{root} has no {min(unknown)}; `skymark cache list` shows all")
    before = datetime.now(UTC) - timedelta(days=unused_days)
    if not dry:
        for name in sweep_jobs(root):
            yield Cleaned(name=f"jobs/{name}", size_bytes=_size(there, f"jobs/{name}"))
        yield from _sweep(root)
    for entry in there:
        wanted = (not names or entry.name in names) and (not kinds or entry.kind in kinds)
        if not wanted or entry.last_used > before or entry.kind == "job":
            continue
        yield _clean_one(root, entry, dry=dry)


def _clean_one(root: Path, entry: CacheEntry, *, dry: bool) -> Cleaned:
    done = Cleaned(name=entry.name, size_bytes=entry.size_bytes)
    if entry.lease is not None:
        return done.model_copy(update={"kept": entry.lease})
    if os.geteuid() not in {0, entry.path.lstat().st_uid}:
        return done.model_copy(update={"kept": f"it is {entry.owner}'s, who alone may remove it"})
    if dry:
        return done
    with ExitStack() as stack:
        free = stack.enter_context(removing(entry.path))
        if free and entry.kind in OF_RUNS:
            free = stack.enter_context(removing(root / RUNS))
        if not free:
            return done.model_copy(update={"kept": "somebody has just begun to use it"})
        remove(entry.path)
    return done


def _sweep(root: Path) -> Iterator[Cleaned]:
    """Remove the leftovers of dead builders."""
    for path in leftovers(root):
        entry = path.with_name(path.name[1:].rsplit(".", 2)[0])  # of the builder's directory
        with removing(entry) as free:
            if free:
                remove(path)
                yield Cleaned(name=str(path.relative_to(root)), size_bytes=0)


def _size(there: list[CacheEntry], name: str) -> int:
    return next((entry.size_bytes for entry in there if entry.name == name), 0)


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
