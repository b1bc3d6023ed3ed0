"""Entries of the cache: data sets, pixel maps, venvs, caches, jobs; and their cleaning."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from skymark.cache.building import PART, REMOVED, remove
from skymark.cache.conversion import CONVERTED
from skymark.cache.jobs import JOBS, command_runs, sweep_jobs
from skymark.cache.location import owner_of
from skymark.cache.manifest import read_manifest
from skymark.cache.providing import PLAIN, PREPARED
from skymark.cache.sharing import CLAIMS, claim_name, claims_beside, held_by, removing, users_of
from skymark.leases import Leases
from skymark.model.base import Count, Frozen, Moment
from skymark.model.errors import UsageError

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


class Entry(Frozen):
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


def entries(root: Path) -> Iterator[Entry]:
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


def entry_of_leftover(path: Path) -> Path:
    """Return the entry for a builder's private directory."""
    return path.with_name(path.name[1:].rsplit(".", 2)[0])


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


def _entry(root: Path, path: Path, kind: str) -> Entry | None:
    try:
        used_s = path.stat().st_mtime
    except OSError:
        return None
    match = FINGERPRINT.match(path.stem if path.is_file() else path.name)
    manifest = read_manifest(path) if kind in {"prepared", "converted"} else None
    title = path.name if match is None else f"{match['title']}{match['form'] or ''}"
    return Entry(
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


def _clean_one(root: Path, entry: Entry, *, dry: bool) -> Cleaned:
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
        with removing(entry_of_leftover(path)) as free:
            if free:
                remove(path)
                yield Cleaned(name=str(path.relative_to(root)), size_bytes=0)


def _size(there: list[Entry], name: str) -> int:
    return next((entry.size_bytes for entry in there if entry.name == name), 0)
