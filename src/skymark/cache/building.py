"""Building of an entry of the cache: once, privately, verified, then renamed into its place.

Nobody sees half an entry: its directory is there, or it is not. Who comes while another one builds
waits; a builder that died is noticed by its lease, and its work is done again. Nothing rests on
``flock``, so it holds on file systems where that always succeeds.
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
"""Suffix of what was taken out of its place, and is being removed."""
HEADROOM = 1.05
"""Free space needed, by that of the entry: file systems keep some for themselves."""


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
        directory: its place; the directories above are made.
        make: fills an empty directory, which is not yet in that place.
        is_whole: whether a directory is what it should be; asked of what was made, too.
        in_place: make it where it is to lie, for what cannot be moved, such as a venv; `is_whole`
            must then tell by what is written last.
        needed_bytes: looked for on the disk before anything is made; None where it is not known.
        announce: told what is waited for.

    Returns:
        Whether this process made it.

    Raises:
        CacheError: it may not be written, or what was made is not whole.
        StorageFullError: the disk has not the room.
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
    """Build privately and put it in its place; False after a takeover by another process."""
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
        return False  # who took over has swept what was made here
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return True


@contextmanager
def explained_if_full(directory: Path) -> Iterator[None]:
    """Explain a write to a full disk, with the next step.

    Raises:
        StorageFullError: it was so.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise StorageFullError(
            f"no space left for {directory}, while it was built; nothing of it is left. `skymark "
            "cache clean` makes room, and --cache-root or SKYMARK_CACHE names a larger disk"
        ) from error


def _build_in_place(
    directory: Path, make: Callable[[Path], None], is_whole: Callable[[Path], bool]
) -> None:
    remove(directory)
    directory.mkdir(mode=0o755)  # by this user alone: nobody prepared it meanwhile
    try:
        make(directory)
        _require_whole(directory, directory, is_whole)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _require_whole(directory: Path, made: Path, is_whole: Callable[[Path], bool]) -> None:
    if not is_whole(made):
        raise CacheError(f"{directory} was made and is not whole; is the disk sound?")


def remove(directory: Path) -> None:
    """Remove an entry: whole for readers until it is gone for them."""
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
    """Remove the leftovers of dead builders of an entry; the caller has its lease.

    What a dead builder had started may go on writing, where nothing is any more.
    """
    for left in list(directory.parent.glob(f".{escape(directory.name)}.*")):
        if left.suffix in {PART, REMOVED}:
            with suppress(FileNotFoundError):  # one that is not dead removes it itself
                out = left.rename(_removed_name(directory))
                writable(out)
                shutil.rmtree(out, ignore_errors=True)


def _removed_name(directory: Path) -> Path:
    """Return a new name for the removal of an entry."""
    return directory.with_name(f".{directory.name}.{secrets.token_hex(4)}{REMOVED}")


def require_space(directory: Path, needed_bytes: int | None) -> None:
    """Refuse to begin a build without enough space on the disk.

    Raises:
        StorageFullError: it is so.
    """
    free, needed = shutil.disk_usage(directory.parent).free, HEADROOM * (needed_bytes or 0)
    if needed > free:
        raise StorageFullError(
            f"no space left for {directory}: building it needs about {size_text(needed)}, and "
            f"{size_text(free)} are free; nothing was built. `skymark cache clean` makes room, "
            "and --cache-root or SKYMARK_CACHE names a larger disk"
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
        needed_bytes: disk that it takes; None where it is not known.
        announce: told what is waited for, and compared.

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
