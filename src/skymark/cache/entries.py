"""Entries of the cache: data sets, pixel maps, venvs, prepared and converted caches, jobs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from skymark.cache.building import PART, REMOVED
from skymark.cache.conversion import CONVERTED
from skymark.cache.jobs import JOBS, command_runs
from skymark.cache.manifest import read_manifest
from skymark.cache.permissions import owner_of
from skymark.cache.prepared import PREPARED
from skymark.cache.providing import PLAIN
from skymark.cache.sharing import CLAIMS, claim_name, claims_beside, held_by, users_of
from skymark.leases import Leases
from skymark.model.base import Count, Frozen, Moment

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
    """A directory of the cache, as it is now."""

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
    """Who builds or uses it; None where nobody does."""
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
    """Yield what builders have begun, and what is being removed: some live, some dead."""
    for folder in FOLDERS:
        for path in sorted((root / folder).glob(".*")):
            if path.suffix in {PART, REMOVED}:
                yield path


def entry_of_leftover(path: Path) -> Path:
    """Return the entry that a builder's private directory was to become."""
    return path.with_name(path.name[1:].rsplit(".", 2)[0])


def lease_of(root: Path, path: Path, kind: str) -> str | None:
    """Return who has an entry, in words; None for nobody."""
    if kind == "job":
        leases = Leases(path.parent / CLAIMS)
        if not leases.is_held(path.name):
            return "its command, which goes on" if command_runs(path) else None
        holder = leases.holder(path.name)
        return "its job" if holder is None else holder.title
    leases = claims_beside(path)
    if leases.is_held(claim_name(path)):
        return f"{held_by(leases, path)} builds it"
    found = users_of(path, leases)
    if kind in OF_RUNS:
        found += users_of(root / RUNS)
    if not found:
        return None
    named = next((one.title for one in found if one is not None), "another process")
    return named if len(found) == 1 else f"{named} and {len(found) - 1} more"


def size_of(path: Path) -> int:
    """Return the bytes of all files below a path, links not followed."""
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
