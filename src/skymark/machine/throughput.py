"""Rates of the machine itself: reading a disk past the page cache, copying memory."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

from skymark.machine.cgroup import limits_of

READ_S = 1.0
"""Reading stops after so long."""
READ_BYTES = 1 << 22
COPIED_BYTES = 1 << 26
"""More than the caches of most processors hold."""
COPIES = 5


def usable_cores() -> int:
    """Return the cores that this process may use, by its affinity mask and its CPU quota."""
    limits = limits_of()
    cores = limits.usable_cores or os.cpu_count() or 1
    quota = limits.cpu_quota_cores
    return cores if quota is None else max(1, min(cores, math.floor(quota)))


def disk_bytes_per_s(
    files: Iterable[Path],
    limit_s: float = READ_S,
    clock: Callable[[], float] = time.perf_counter,
) -> float | None:
    """Return the rate at which one thread reads files from the disk, one after another.

    The kernel is asked to forget their pages first, as `drop_page_cache` does; a disk's own cache,
    or the host's of a virtual one, is not forgotten.

    Args:
        files: read in order, until the time is over.
        limit_s: the longest time.
        clock: seconds.

    Returns:
        Bytes per second; None where there was nothing to read.
    """
    read, taken_s = 0, 0.0
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            began_s = clock()
            while (got := len(os.read(descriptor, READ_BYTES))) > 0:
                read += got
                if taken_s + clock() - began_s >= limit_s:
                    break
            taken_s += clock() - began_s
        finally:
            os.close(descriptor)
        if taken_s >= limit_s:
            break
    return read / taken_s if read and taken_s > 0 else None


def memory_bytes_per_s(
    copies: int = COPIES, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the rate at which one thread copies memory: the median of several copies.

    The bytes of a copy count once, though they are read and written.
    """
    source, target = bytearray(COPIED_BYTES), bytearray(COPIED_BYTES)
    taken = []
    for _ in range(copies):
        began_s = clock()
        target[:] = source
        taken.append(clock() - began_s)
    return COPIED_BYTES / median(taken)
