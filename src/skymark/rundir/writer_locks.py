"""Locks of a run's directory: one writer at a time, or several processes that share it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from skymark.model.errors import RunDirectoryError

LOCK = ".lock"


@contextmanager
def sole_writer(
    path: Path, *, wait: bool, announce: Callable[[str], None] = lambda _: None
) -> Iterator[None]:
    """Make a run's directory if it is absent, and lock it for this writer alone.

    Args:
        path: the directory.
        wait: whether to wait for another run that writes there; else raise an error.
        announce: gets one message if there is a wait.

    Raises:
        RunDirectoryError: another run writes there, it is a file, or it cannot be written.
    """
    from filelock import FileLock, Timeout

    with _made(path):
        lock = FileLock(path / LOCK, thread_local=False)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            if not wait:
                raise RunDirectoryError(
                    f"another skymark run is writing to {path}; wait for it and add --resume, "
                    "or choose another --output"
                ) from error
            announce(f"waiting: another skymark run is writing to {path}")
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _made(path: Path) -> Iterator[None]:
    """Make a run's directory if it is absent, and explain a refused lock in it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        yield
    except FileExistsError as error:
        raise RunDirectoryError(f"{path} is a file; choose another --output") from error
    except OSError as error:
        raise RunDirectoryError(
            f"cannot write to {path}: {error.strerror}; choose another --output"
        ) from error


TURN = f"{LOCK}.turn"
"""Lock held for moments only, while a writer arrives or checks whether it is alone."""


class JointWriter:
    """Process that writes a run's cells in parallel with other processes."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Hold the shared lock that `joint_writer` took."""
        self._path = path
        self._descriptor = descriptor

    @contextmanager
    def alone(self, *, leaving: bool = False) -> Iterator[bool]:
        """Block new writers for a moment, and yield whether this writer is alone.

        Args:
            leaving: leave at the end of the moment; of several leaving writers, only the last is
                alone.
        """
        with _turn(self._path):
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                alone = True
            except BlockingIOError:
                alone = False
            try:
                yield alone
            finally:  # a failed change of a lock's kind loses it
                fcntl.flock(self._descriptor, fcntl.LOCK_UN if leaving else fcntl.LOCK_SH)


@contextmanager
def joint_writer(
    path: Path, announce: Callable[[str], None] = lambda _: None
) -> Iterator[JointWriter]:
    """Make a run's directory if it is absent, and share it with other joint writers.

    Args:
        path: the directory.
        announce: gets one message if a sole writer blocks it.

    Raises:
        RunDirectoryError: it is a file, is not writable, or lies on a file system without locks.
    """
    with _made(path):
        descriptor = _open(path / LOCK)
    try:
        _join(path, descriptor, announce)
        yield JointWriter(path, descriptor)
    finally:
        os.close(descriptor)


def _join(path: Path, descriptor: int, announce: Callable[[str], None]) -> None:
    try:
        with _turn(path):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                announce(f"waiting: another skymark run is writing to {path}")
                fcntl.flock(descriptor, fcntl.LOCK_SH)
    except OSError as error:
        raise RunDirectoryError(
            f"the file system of {path} refuses locks ({error.strerror}), by which several "
            "processes share a run; choose an --output on another disk, or give --split and --store"
        ) from error


@contextmanager
def _turn(path: Path) -> Iterator[None]:
    descriptor = _open(path / TURN)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)


LOCKS = Path("/proc/locks")
"""The kernel's list (proc_locks(5)), which has an inode in its sixth field."""


def is_being_written(directory: Path) -> bool:
    """Return whether a process of this machine holds the lock of a run's directory.

    The lock itself is not taken, because that would block a run which begins at this moment.
    """
    try:
        inode = (directory / LOCK).stat().st_ino
        lines = LOCKS.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    # An arrow marks a process that only waits for a lock.
    fields = (line.split() for line in lines if "->" not in line)
    return any(
        len(columns) > 5 and columns[5].rpartition(":")[2] == str(inode) for columns in fields
    )
