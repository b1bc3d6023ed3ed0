"""Building of a cache's entry, once and verified, and the manifest of its sources and files.

Readers never see half an entry. Other processes wait while one builds. If the builder dies, its
lease expires and another process builds the entry again. The leases do not need ``flock``, so they
also work on file systems where ``flock`` always succeeds.

A library may add files and locks as it likes, and none of them reaches the cache. Lock files are
not linked: libraries refuse to open a link as a lock.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from pydantic import Field

from skymark.cache.location import make_shared_folder, open_to_readers, refusal, writable
from skymark.cache.sharing import claims_beside, taken_when_free
from skymark.cache.sources import SourceFile
from skymark.leases import Lease
from skymark.model.base import Count, Frozen, Moment
from skymark.model.errors import CacheError, StorageFullError
from skymark.model.sizes import size_text
from skymark.plain_files import FULL, entries_below, read_regular, write_whole

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
    sources: tuple[SourceFile, ...] = ()
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


def write_sources(entry: Path, sources: Iterable[SourceFile]) -> None:
    """Write the sources of an entry that is being built, beside its manifest."""
    lines = "".join(f"{source.model_dump_json()}\n" for source in sources)
    write_whole(entry / SOURCES, lines.encode())


def sources_of(entry: Path, manifest: CacheManifest) -> Iterator[SourceFile]:
    """Yield the sources of an entry, wherever they were written down.

    Raises:
        ValueError: their file is damaged.
    """
    yield from manifest.sources
    with suppress(FileNotFoundError):
        for line in read_regular(entry / SOURCES, largest=LARGEST_SOURCES_BYTES).splitlines():
            yield SourceFile.model_validate_json(line)


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


PART = ".part"
"""Suffix of the private directories of builders; their names begin with a dot."""
REMOVED = ".removed"
"""Suffix of entries that are being removed."""
HEADROOM = 1.05
"""Free space needed, as a multiple of the entry's size: file systems reserve some."""


def build_once(
    directory: Path,
    make: Callable[[Path], None],
    *,
    is_whole: Callable[[Path], bool] = Path.is_dir,
    needed_bytes: int | None = None,
    in_place: bool = False,
    announce: Callable[[str], None] = lambda _: None,
) -> bool:
    """Make a directory exactly once over all processes and machines that share its disk.

    Args:
        directory: final path; parent directories are made.
        make: fills an empty directory at a temporary path.
        is_whole: whether a directory is complete; also checks the new one.
        in_place: build at the final path, for entries that cannot be moved, such as venvs;
            `is_whole` must then look for the file that is written last.
        needed_bytes: free space that the disk must have before the build; None if unknown.
        announce: callback for messages about waiting.

    Returns:
        Whether this process made it.

    Raises:
        CacheError: this user may not write it, or the new directory is incomplete.
        StorageFullError: the disk has too little free space.
    """
    while not is_whole(directory):
        try:
            make_shared_folder(claims_beside(directory).directory)
            lease = taken_when_free(directory, announce, lambda: is_whole(directory), "builds")
        except PermissionError as error:
            raise CacheError(refusal(directory, error)) from error
        if lease is None:
            return False
        try:
            if is_whole(directory):
                return False
            sweep_parts(directory)
            require_space(directory, needed_bytes)
            if in_place:
                _build_in_place(directory, make, is_whole)
                return True
            if _built(directory, make, is_whole, lease):
                return True
        finally:
            lease.release()
    return False


def _built(
    directory: Path,
    make: Callable[[Path], None],
    is_whole: Callable[[Path], bool],
    lease: Lease,
) -> bool:
    """Build privately and move the result to its path; False if another process took over."""
    part = directory.with_name(f".{directory.name}.{secrets.token_hex(4)}{PART}")
    part.mkdir(mode=0o755)
    try:
        make(part)
        _require_whole(directory, part, is_whole)
        open_to_readers(part)
        if not lease.is_held:
            return False
        remove(directory)
        part.rename(directory)
    except OSError:
        if lease.is_held:
            raise
        return False  # the process that took over has removed these files
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return True


@contextmanager
def explained_if_full(directory: Path) -> Iterator[None]:
    """Explain a write to a full disk, with the next step.

    Raises:
        StorageFullError: the disk was full.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise StorageFullError(
            f"no space left for {directory} during its build; the partial files were removed. "
            "Free space with `skymark cache clean`, or choose a larger disk with --cache-root or "
            "SKYMARK_CACHE"
        ) from error


def _build_in_place(
    directory: Path, make: Callable[[Path], None], is_whole: Callable[[Path], bool]
) -> None:
    remove(directory)
    directory.mkdir(mode=0o755)  # fails if another user made it meanwhile
    try:
        make(directory)
        _require_whole(directory, directory, is_whole)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _require_whole(directory: Path, made: Path, is_whole: Callable[[Path], bool]) -> None:
    if not is_whole(made):
        raise CacheError(f"{directory} was built but is incomplete; check the disk")


def remove(directory: Path) -> None:
    """Remove an entry: readers see all of it or nothing."""
    if not os.path.lexists(directory):
        return
    out = _removed_name(directory)
    directory.rename(out)
    if out.is_dir() and not out.is_symlink():
        writable(out)
        shutil.rmtree(out)
    else:
        out.unlink()


def sweep_parts(directory: Path) -> None:
    """Remove the leftovers of dead builders of an entry; the caller holds its lease."""
    for left in list(directory.parent.glob(f".{escape(directory.name)}.*")):
        if left.suffix in {PART, REMOVED}:
            with suppress(FileNotFoundError):  # a live builder removes it itself
                out = left.rename(_removed_name(directory))
                writable(out)
                shutil.rmtree(out, ignore_errors=True)


def _removed_name(directory: Path) -> Path:
    """Return a new name for the removal of an entry."""
    return directory.with_name(f".{directory.name}.{secrets.token_hex(4)}{REMOVED}")


def require_space(directory: Path, needed_bytes: int | None) -> None:
    """Refuse to begin a build without enough space on the disk.

    Raises:
        StorageFullError: the disk has too little free space.
    """
    free, needed = shutil.disk_usage(directory.parent).free, HEADROOM * (needed_bytes or 0)
    if needed > free:
        raise StorageFullError(
            f"no space left for {directory}: its build needs about {size_text(needed)}, and "
            f"{size_text(free)} are free; nothing was built. Free space with `skymark cache "
            "clean`, or choose a larger disk with --cache-root or SKYMARK_CACHE"
        )


def build_entry(
    entry: Path,
    fill: Callable[[Path], None],
    describe: Callable[[dict[str, CachedFile]], CacheManifest],
    *,
    needed_bytes: int | None,
    announce: Callable[[str], None],
) -> None:
    """Build an entry with a manifest, if no process has.

    Args:
        entry: its directory.
        fill: fills the empty directory of its content.
        describe: returns the manifest for the files of the content.
        needed_bytes: disk space of the entry; None if unknown.
        announce: callback for messages about waiting and comparing.

    Raises:
        CacheError: it cannot be built.
        StorageFullError: the disk has no room for it.
    """

    def make(part: Path) -> None:
        content = part / CONTENT
        content.mkdir()
        fill(content)
        write_manifest(part, describe(digests_of(content)))

    with explained_if_full(entry):
        build_once(entry, make, is_whole=is_whole, needed_bytes=needed_bytes, announce=announce)
    verify_strangers(entry, announce)
