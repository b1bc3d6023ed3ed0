"""Writing of files whole or not at all, and the explanation of refused writes."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skymark.model.errors import StorageFullError, UsageError

LARGEST_FILE_BYTES = 256 << 20
"""Largest file that is read from a store or opened; skymark writes none so large."""

PART = ".part"
"""Suffix of the names of temporary files; they begin with a dot."""
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def write_whole(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file by a temporary file, an fsync, a rename and an fsync of the directory.

    Args:
        path: the file; its directories are made.
        data: its content.
        durable: outlive a power cut; not needed for what can be made or fetched again.

    Raises:
        OSError: the write was refused; what was there before is intact.
    """
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
    if not durable:
        return
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


@contextmanager
def named_by_user(path: Path, what: str = "a file in a directory") -> Iterator[None]:
    """Raise a refused write to a place of the user's choice as an error that asks for another.

    Raises:
        UsageError: the write was refused; the message ends with the request to name `what`.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}; name {what} that can be written"
        ) from error


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise a refused write as an error that names its cause and the next action."""
    try:
        yield
    except OSError as error:
        reason = "the disk is full" if error.errno in FULL else (error.strerror or str(error))
        raise StorageFullError(
            f"cannot write {path}: {reason}; what was written before is intact. "
            "Free some space and run the same command with --resume"
        ) from error
