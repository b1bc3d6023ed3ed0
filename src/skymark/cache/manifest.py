"""Manifest of a built cache: its sources, and the digest of every file in it.

A library may add files and locks as it likes, and none of them reaches the cache. Lock files are
not linked: libraries refuse to open a link as a lock.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pydantic import Field

from skymark.cache.sources import Source
from skymark.model.base import Count, Frozen, Moment
from skymark.model.errors import CacheError
from skymark.plain_files import entries_below, read_regular, write_whole

LOCK = ".lock"


def lay_over(lower: Path, directory: Path) -> None:
    """Copy the folders of a directory to another, with links to its files."""
    for folder, folders, names in os.walk(lower):
        place = directory / os.path.relpath(folder, lower)
        place.mkdir(parents=True, exist_ok=True)
        for name in [
            *names,
            *(folder_name for folder_name in folders if Path(folder, folder_name).is_symlink()),
        ]:
            source = Path(folder, name)
            if name.endswith(LOCK):
                continue
            # A link of the cache's own, such as the hub's, leads to a file in the overlay, too.
            target = source.readlink() if source.is_symlink() else source
            (place / name).symlink_to(target)


MANIFEST = "skymark-cache.json"
SOURCES = "skymark-sources.jsonl"
"""Files that the data of runs was read from, a line each: millions would make a manifest slow."""
LARGEST_SOURCES_BYTES = 4 << 30
"""Of that file: about twenty million lines."""
CONTENT = "content"
"""Folder of an entry that holds what the manifest is about."""
WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class CachedFile(Frozen):
    """State of a file when the cache was built."""

    size_bytes: Count
    sha256: str


class CacheManifest(Frozen):
    """Description of a built cache; written last, before the cache gets into its place."""

    data_set: str
    fingerprint: str
    """Digest of the sources, the options of the call and the library's version."""
    data: str | None = None
    """Address of the data of runs, where a suite read it; its sources have a file of their own."""
    sources: tuple[Source, ...] = ()
    versions: dict[str, str] = Field(default_factory=dict)
    built_at: Moment
    sealed: bool = False
    files: dict[str, CachedFile]


def digests_of(directory: Path) -> dict[str, CachedFile]:
    """Return the size and digest of every file below a directory; remove lock files."""
    files = {}
    for name, entry in sorted(entries_below(directory)):
        if name.endswith(LOCK):
            Path(entry.path).unlink()
        elif entry.is_file(follow_symlinks=False):
            size = entry.stat(follow_symlinks=False).st_size
            files[name] = CachedFile(size_bytes=size, sha256=_digest(Path(entry.path)))
    return files


def write_manifest(entry: Path, manifest: CacheManifest) -> None:
    """Write the manifest of an entry that is being built, and seal the entry if required."""
    write_whole(entry / MANIFEST, manifest.model_dump_json(indent=1).encode())
    if manifest.sealed:
        for folder, _, names in os.walk(entry, topdown=False):
            for path in (*(Path(folder, name) for name in names), Path(folder)):
                if not path.is_symlink() and path != entry:  # which is still to be renamed
                    path.chmod(stat.S_IMODE(path.stat().st_mode) & ~WRITE)


def write_sources(entry: Path, sources: Iterable[Source]) -> None:
    """Write the sources of an entry that is being built, beside its manifest."""
    lines = "".join(f"{source.model_dump_json()}\n" for source in sources)
    write_whole(entry / SOURCES, lines.encode())


def sources_of(entry: Path, manifest: CacheManifest) -> Iterator[Source]:
    """Yield the sources of an entry, wherever they were written down.

    Raises:
        ValueError: their file is damaged.
    """
    yield from manifest.sources
    with suppress(FileNotFoundError):
        for line in read_regular(entry / SOURCES, largest=LARGEST_SOURCES_BYTES).splitlines():
            yield Source.model_validate_json(line)


def read_manifest(entry: Path) -> CacheManifest | None:
    """Return the manifest of an entry; None if it is absent or damaged."""
    try:
        return CacheManifest.model_validate_json(read_regular(entry / MANIFEST))
    except (OSError, ValueError):
        return None


def is_whole(entry: Path) -> bool:
    """Whether an entry has its manifest, and every file of it in its size."""
    manifest = read_manifest(entry)
    return manifest is not None and not _wrong_sizes(entry, manifest)


def require_sound(entry: Path) -> CacheManifest:
    """Return the manifest of an entry whose files are readable and have the right sizes.

    Raises:
        CacheError: it is not so.
    """
    manifest = read_manifest(entry)
    if manifest is None:
        raise CacheError(f"{entry} is no cache, or its {MANIFEST} is damaged; build it again")
    if wrong := _wrong_sizes(entry, manifest):
        raise CacheError(f"{wrong[0]}; `skymark cache verify {entry}` tells all, then build again")
    return manifest


def is_strangers(entry: Path) -> bool:
    """Whether another user built an entry, and may change it at any time."""
    return entry.stat().st_uid not in {0, os.getuid()}


def verify_strangers(entry: Path, announce: Callable[[str], None]) -> None:
    """Compare every file of another user's entry with its digest.

    Raises:
        CacheError: a file has other content.
    """
    if not is_strangers(entry):
        return
    announce(f"comparing {entry}, which another user built, with its digests")
    manifest = require_sound(entry)
    if wrong := damage(entry, manifest):
        raise CacheError(f"{wrong[0]}; have its owner remove it, or name another --cache-root")


def damage(entry: Path, manifest: CacheManifest) -> list[str]:
    """Return the files whose digests differ, in words."""
    wrong = _wrong_sizes(entry, manifest)
    if wrong:
        return wrong
    for name, expected in manifest.files.items():
        path = entry / CONTENT / name
        try:
            digest = _digest(path)
        except OSError as error:
            wrong.append(f"{path} cannot be read: {error.strerror}")
            continue
        if digest != expected.sha256:
            wrong.append(f"{path} has other content than it was built with")
    return wrong


def _wrong_sizes(entry: Path, manifest: CacheManifest) -> list[str]:
    wrong = []
    for name, expected in manifest.files.items():
        path = entry / CONTENT / name
        try:
            size = path.stat().st_size
        except OSError as error:
            wrong.append(f"{path} is missing: {error.strerror}")
            continue
        if size != expected.size_bytes:
            wrong.append(f"{path} has {size:,} bytes, and was built with {expected.size_bytes:,}")
    return wrong


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
