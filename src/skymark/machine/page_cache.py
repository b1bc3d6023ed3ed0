"""The page cache, made cold on purpose where a run asks for it."""

from __future__ import annotations

import os
from pathlib import Path


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
