"""Lock of a run's directory: one writer at a time, also across machines and containers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from skymark.model.errors import RunDirectoryError

LOCK = ".lock"


@contextmanager
def sole_writer(
    path: Path, *, wait: bool, announce: Callable[[str], None] = lambda _: None
) -> Iterator[None]:
    """Make a run's directory if there is none, and keep everybody else from writing into it.

    Args:
        path: the directory.
        wait: whether to wait for another run that writes there; else it is refused.
        announce: told once if there is a wait.

    Raises:
        RunDirectoryError: another run writes there, it is a file, or it cannot be written.
    """
    from filelock import FileLock, Timeout

    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path / LOCK, thread_local=False)
        lock.acquire(timeout=0)
    except Timeout as error:
        if not wait:
            raise RunDirectoryError(
                f"another skymark run is writing to {path}; wait for it and add --resume, "
                "or choose another --output"
            ) from error
        announce(f"waiting: another skymark run is writing to {path}")
        lock.acquire()
    except FileExistsError as error:
        raise RunDirectoryError(f"{path} is a file; choose another --output") from error
    except OSError as error:
        raise RunDirectoryError(
            f"cannot write to {path}: {error.strerror}; choose another --output"
        ) from error
    try:
        yield
    finally:
        lock.release()
