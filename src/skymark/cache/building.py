"""Building of an entry of the cache: once, privately, verified, then renamed into its place.

Readers never see half an entry. Other processes wait while one builds. If the builder dies, its
lease expires and another process builds the entry again. The leases do not need ``flock``, so they
also work on file systems where ``flock`` always succeeds.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from skymark.cache.location import make_shared_folder, open_to_readers, refusal, writable
from skymark.cache.manifest import (
    CONTENT,
    CachedFile,
    CacheManifest,
    digests_of,
    is_whole,
    verify_strangers,
    write_manifest,
)
from skymark.cache.sharing import claims_beside, taken_when_free
from skymark.leases import Lease
from skymark.model.errors import CacheError, StorageFullError
from skymark.model.sizes import size_text
from skymark.plain_files import FULL

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
