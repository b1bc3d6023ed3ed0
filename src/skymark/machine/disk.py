"""Disk below a directory: kind, free space, and read rate; copy rate of memory."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

from skymark.machine.cgroup import limits_of
from skymark.model.machine import DiskKind

NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "lustre", "ceph", "beegfs", "gpfs", "9p"})
MEMORY = frozenset({"tmpfs", "ramfs"})


def disk_of(
    directory: Path, sys_block: Path = Path("/sys/dev/block")
) -> tuple[DiskKind | None, str | None, int | None]:
    """Return the disk's kind, the file system's type and the free bytes below a directory.

    A directory that does not exist yet lies on the disk of its nearest parent.
    """
    place = directory.resolve()
    while not place.exists():
        place = place.parent
    filesystem = _filesystem(place)
    return _kind(place, filesystem, sys_block), filesystem, shutil.disk_usage(place).free


def _filesystem(place: Path) -> str | None:
    import psutil

    partitions = psutil.disk_partitions(all=True)
    mounts: dict[str, str] = {partition.mountpoint: partition.fstype for partition in partitions}
    for parent in (place, *place.parents):
        if mounts.get(os.fspath(parent)):
            return mounts[os.fspath(parent)]
    return None


def _kind(place: Path, filesystem: str | None, sys_block: Path) -> DiskKind | None:
    if filesystem in MEMORY:
        return "memory"
    if filesystem in NETWORK or (filesystem or "").startswith("fuse."):
        return "network"
    device = place.stat().st_dev
    block = (sys_block / f"{os.major(device)}:{os.minor(device)}").resolve()
    if not block.exists():
        return None
    return _kind_of_device(block.parent if (block / "partition").exists() else block)


def _kind_of_device(block: Path) -> DiskKind | None:
    """Return the kind of a device by its name, or by the kernel's rotational flag."""
    if block.name.startswith("nvme"):
        return "nvme"
    if block.name.startswith(("vd", "xvd")):
        return "virtual"
    rotational = block / "queue" / "rotational"
    if not rotational.exists():
        return None
    return "hdd" if rotational.read_text().strip() == "1" else "ssd"


READ_S = 1.0
"""Longest time of reading."""
READ_BYTES = 1 << 22
COPIED_BYTES = 1 << 26
"""Bytes of a copy, more than most processors' caches hold."""
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

    The kernel's cached pages are dropped first, as `drop_page_cache` does. A disk's own cache, or
    the host's cache of a virtual disk, stays.

    Args:
        files: read in order, until the time is over.
        limit_s: the longest time.
        clock: seconds.

    Returns:
        Bytes per second; None if there was nothing to read.
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

    The bytes of a copy count once, although they are read and written.
    """
    source, target = bytearray(COPIED_BYTES), bytearray(COPIED_BYTES)
    taken = []
    for _ in range(copies):
        began_s = clock()
        target[:] = source
        taken.append(clock() - began_s)
    return COPIED_BYTES / median(taken)
