"""Files: written whole or not at all, and read where no link is ever followed."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skymark.model.errors import StorageFullError, UsageError
from skymark.model.sizes import size_text

LARGEST_FILE_BYTES = 256 << 20
"""Largest file that is read from a store or opened; skymark writes none so large."""

PART = ".part"
"""Suffix of the names of temporary files; they begin with a dot."""
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def write_whole(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file by a temporary file, an fsync, a rename and an fsync of the directory.

    A device or a pipe, such as ``/dev/null``, is written into, and never replaced.

    Args:
        path: the file; its directories are made.
        data: its content.
        durable: outlive a power cut; not needed for what can be made or fetched again.

    Raises:
        OSError: the write was refused; what was there before is intact.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        path.write_bytes(data)
    else:
        _replace(path, data, durable=durable)


def _replace(path: Path, data: bytes, *, durable: bool) -> None:
    """Write a file whole, in place of whatever has its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=PART)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Let the names in a directory outlive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def named_by_user(path: Path, what: str = "a file in a directory") -> Iterator[None]:
    """Explain a refused write to a path of the user's choice.

    Raises:
        UsageError: the write was refused; the message asks for `what`.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}; name {what} that can be written"
        ) from error


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Explain a refused write, with its cause and the next action."""
    try:
        yield
    except OSError as error:
        reason = "the disk is full" if error.errno in FULL else (error.strerror or str(error))
        raise StorageFullError(
            f"cannot write {path}: {reason}; what was written before is intact. "
            "Free some space and run the same command with --resume"
        ) from error


OPENING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags that open a FIFO without waiting for a writer, and fail on a link."""
KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class TooLargeError(ValueError):
    """A file is larger than is ever read."""


def read_below(root: Path, path: str, *, largest: int = LARGEST_FILE_BYTES) -> bytes:
    """Read a regular file below a directory.

    Args:
        root: the directory; it may itself be reached by links.
        path: relative to it; no part of it may be a link.
        largest: in bytes.

    Raises:
        FileNotFoundError: there is none.
        OSError: it may not be read, or a directory on the way is a link.
        TooLargeError: it is larger.
        ValueError: it is no regular file.
    """
    require_plain_folders(root, path)
    return read_regular(f"{root}/{path}", largest=largest)


def read_regular(
    path: str | Path, *, largest: int = LARGEST_FILE_BYTES, through_links: bool = False
) -> bytes:
    """Read a regular file; directories on the way may be links.

    Args:
        path: where it is.
        largest: in bytes.
        through_links: follow the path where it is a link.

    Raises:
        FileNotFoundError: there is none.
        OSError: it may not be read.
        TooLargeError: it is larger.
        ValueError: it is no regular file.
    """
    descriptor = open_regular(path, through_links=through_links)
    try:
        size = os.fstat(descriptor).st_size
        if size > largest:
            raise TooLargeError(f"is larger than {size_text(largest)}, more than is ever needed")
        parts = []
        left = largest
        while left and (part := os.read(descriptor, min(left, max(size, 1) + 1))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def read_named(path: Path, remedy: str) -> bytes:
    """Read a file that the user named, through links, without waiting.

    Raises:
        UsageError: it is not there, no regular file, or may not be read.
    """
    try:
        return read_regular(path, through_links=True)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; {remedy}") from error
    except ValueError as error:
        raise UsageError(f"cannot read {path}: it {error}; {remedy}") from error


def open_regular(path: str | Path, *, through_links: bool = False) -> int:
    """Open a regular file for reading, without waiting for anybody; returns its descriptor.

    Args:
        path: where it is.
        through_links: follow the path where it is a link.

    Raises:
        FileNotFoundError: there is none.
        OSError: it may not be read.
        ValueError: it is no regular file.
    """
    try:
        descriptor = os.open(path, OPENING & ~os.O_NOFOLLOW if through_links else OPENING)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO}:  # a link, a socket
            raise ValueError(_no_regular_file(os.lstat(path))) from error
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise ValueError(_no_regular_file(status))
    return descriptor


def write_below(root: Path, path: str, data: bytes, *, durable: bool = True) -> None:
    """Write or replace a file below a directory, whole or not at all; a pipe is replaced, too.

    Args:
        root: the directory; made if absent.
        path: relative to it; the directories on the way are made, and none may be a link.
        data: its content.
        durable: outlive a power cut.

    Raises:
        OSError: the write was refused; what was there before is intact.
    """
    require_plain_folders(root, path)
    _replace(root / path, data, durable=durable)


def remove_below(root: Path, path: str) -> None:
    """Remove a file below a directory, or a link in its place; no error if there is none.

    Raises:
        OSError: it is no file, may not be removed, or a directory on the way is a link.
    """
    require_plain_folders(root, path)
    (root / path).unlink(missing_ok=True)


def require_plain_folders(root: Path, path: str) -> None:
    """Refuse a path that leads through a link.

    Raises:
        NotADirectoryError: a directory between the root and the last part is a link.
    """
    place = os.fspath(root)
    for folder in path.split("/")[:-1]:
        place = f"{place}/{folder}"
        if os.path.islink(place):  # noqa: PTH114 - ten thousands of them
            raise NotADirectoryError(errno.ENOTDIR, f"{place} is a link, and is not followed")


def entries_below(root: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield everything below a directory but directories, by relative path, unsorted.

    Links are not followed: they are entries themselves. There is nothing below what is a link, no
    directory, not there, or removed before its entries are listed.

    Raises:
        OSError: a directory may not be read.
    """
    if root.is_symlink() or not root.is_dir():
        return
    folders = [""]
    while folders:
        prefix = folders.pop()
        try:
            entries = os.scandir(f"{root}/{prefix}")
        except FileNotFoundError:
            continue
        with entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{prefix}{entry.name}/")
                else:
                    yield f"{prefix}{entry.name}", entry


def _no_regular_file(status: os.stat_result) -> str:
    kind = KINDS.get(stat.S_IFMT(status.st_mode), "something else")
    return f"is {kind}, no regular file; remove it, or put a file in its place"
