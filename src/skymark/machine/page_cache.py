"""The page cache, filled before each round, or made cold on purpose where a run asks for it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from skymark.machine.cgroup import limits_of

LARGEST_SHARE = 0.5
"""Of the memory: files that need more would push one another out again."""

CHUNK_BYTES = 1 << 20


def fill_page_cache(directory: Path, seconds: float) -> None:
    """Read the files below a directory, so that the kernel has them, however old they are.

    It ends after so many seconds, or when it has read `LARGEST_SHARE` of the memory.
    """
    until, left = time.monotonic() + seconds, LARGEST_SHARE * _memory_bytes()
    chunk = memoryview(bytearray(CHUNK_BYTES))
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while read := file.readinto(chunk):
                    left -= read
                    if left < 0 or time.monotonic() > until:
                        return


def _memory_bytes() -> int:
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(installed, limits_of().memory_limit_bytes or installed)


def drop_page_cache(directory: Path) -> None:
    """Ask the kernel to forget the cached pages of every file below a directory.

    Uses ``posix_fadvise(POSIX_FADV_DONTNEED)`` after an fsync, which needs no privileges and
    touches nothing else on the machine. Pages that are mapped by a running process stay.
    """
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
