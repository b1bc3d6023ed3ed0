"""Lock of a run's directory that several processes share, against a sole writer."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from skymark.model.errors import RunDirectoryError
from skymark.run.sole_writer import LOCK

TURN = f"{LOCK}.turn"
"""Lock that is held for moments only: by whoever comes, or looks whether it is alone."""


class JointWriter:
    """One of the processes that write different cells of a run at the same time."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Hold the shared lock that `joint_writer` took."""
        self._path = path
        self._descriptor = descriptor

    @contextmanager
    def alone(self, *, leaving: bool = False) -> Iterator[bool]:
        """Keep others from coming for a moment, and say whether none is there.

        Args:
            leaving: be no writer any more when the moment is over, so that of those who leave at
                once the last finds itself alone.
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
    """Make a run's directory if there is none, and write into it beside others that do so.

    Args:
        path: the directory.
        announce: told once if a sole writer is waited for.

    Raises:
        RunDirectoryError: it is a file, cannot be written, or lies where there are no locks.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        descriptor = _open(path / LOCK)
    except FileExistsError as error:
        raise RunDirectoryError(f"{path} is a file; choose another --output") from error
    except OSError as error:
        raise RunDirectoryError(
            f"cannot write to {path}: {error.strerror}; choose another --output"
        ) from error
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
