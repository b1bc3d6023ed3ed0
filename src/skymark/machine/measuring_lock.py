"""Measuring lock: one measurement at a time on a machine, because two disturb each other."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from skymark.model.errors import UsageError


def lock_path() -> Path:
    """Return the machine-wide lock file, the same for every user."""
    return Path(os.environ.get("SKYMARK_LOCK", Path(tempfile.gettempdir()) / "skymark.lock"))


@contextmanager
def measuring(
    wait_s: float = 3600.0, announce: Callable[[str], None] = lambda _: None
) -> Iterator[None]:
    """Hold the machine's measurement lock.

    Args:
        wait_s: how long to wait for another run to finish.
        announce: told once if there is a wait.

    Raises:
        UsageError: another run is still measuring after that time.
    """
    lock = FileLock(lock_path(), mode=0o666, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        announce("waiting: another skymark run is measuring on this machine")
        try:
            lock.acquire(timeout=wait_s)
        except Timeout as error:
            raise UsageError(
                f"another run still measures on this machine after {wait_s:g} s "
                f"(it holds {lock_path()}); wait for it or stop it"
            ) from error
    try:
        yield
    finally:
        lock.release()
