"""Disk and page cache: space, read and copy rates, and files put into memory or dropped.

A process that has imported a library and now waits does not need the library's code in memory.
Mapped pages would count it as their user and halve a working process's share.
"""

from __future__ import annotations

import ctypes
import errno
import math
import mmap
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import BinaryIO, NamedTuple

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


LARGEST_SHARE = 0.5
"""Largest share of the memory: larger files would evict each other."""

CHUNK_BYTES = 1 << 20


def fill_page_cache(directory: Path, seconds: float) -> None:
    """Read the files below a directory into the kernel's page cache.

    Reading ends after the time limit, or at `LARGEST_SHARE` of the memory.
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


LOOKED_AT_FILES = 1000
LOWEST_BIT = bytes(byte & 1 for byte in range(256))
"""Table from a byte of mincore(2) to 1 for a page in memory."""


def cached_share(directory: Path) -> float | None:
    """Return the share of the files below a directory that is in the kernel's page cache.

    Of many files it looks at some, evenly spaced, by ``mincore``, which loads nothing. None if
    there are no files, or if the kernel does not say.
    """
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    cached = pages = 0
    for path in paths[:: 1 + len(paths) // LOOKED_AT_FILES]:
        size = path.stat().st_size
        if not size:
            continue
        resident = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        with path.open("rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as at:
            first = ctypes.c_char.from_buffer(at)
            failed = ctypes.CDLL(None).mincore(ctypes.byref(first), ctypes.c_size_t(size), resident)
            del first  # else the mapping cannot be closed
        if failed:
            return None
        cached += bytes(resident).translate(LOWEST_BIT).count(1)
        pages += len(resident)
    return cached / pages if pages else None


def _memory_bytes() -> int:
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(installed, limits_of().memory_limit_bytes or installed)


def drop_page_cache(directory: Path) -> None:
    """Ask the kernel to forget the cached pages of every file below a directory.

    Uses ``posix_fadvise(POSIX_FADV_DONTNEED)`` after an fsync. It needs no privileges and affects
    no other files. Pages that are mapped by a running process stay.
    """
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def write_back(directory: Path) -> None:
    """Wait until all that was written to a directory's file system is on its disk (syncfs(2)).

    Without this wait the kernel writes up to half a minute later, and disturbs the measurement. A
    fault of the disk raises nothing here: the kernel reports it to the writers.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except FileNotFoundError:
        return  # nothing was written
    try:
        ctypes.CDLL(None).syncfs(descriptor)
    finally:
        os.close(descriptor)


PROC = Path("/proc/self")
DONTNEED, POPULATE_READ = 4, 22
"""Advice of madvise(2)."""
HEAD = re.compile(rb"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ (\d+)\s*(.*)\n")
"""The first line of a mapping in smaps; see proc_pid_smaps(5)."""
PRESENT = bytes(int(byte >= 0x80) for byte in range(256))
"""Table from the highest byte of a pagemap entry to 1 for a page in memory."""


class PageRange(NamedTuple):
    """Range of adjacent pages."""

    start: int
    length: int


class MappedFiles:
    """Mapped pages of files at construction; none if the kernel does not report them."""

    def __init__(self) -> None:
        self._mappings = tuple(_unchanged_mappings())
        self._present: tuple[PageRange, ...] = ()
        if self._mappings:
            with (PROC / "pagemap").open("rb", buffering=0) as pages:
                ranges = [run for mapping in self._mappings for run in _present(pages, mapping)]
            self._present = tuple(ranges)

    @property
    def bytes(self) -> int:
        """Size of the pages."""
        return sum(run.length for run in self._present)

    def drop(self) -> None:
        """Unmap the pages; each comes back by itself when it is used."""
        for mapping in self._mappings:
            _advise(mapping, DONTNEED)

    def map_again(self) -> None:
        """Map the pages, as if this process had used them."""
        for run in self._present:
            if not _advise(run, POPULATE_READ):
                for address in range(run.start, run.start + run.length, mmap.PAGESIZE):
                    ctypes.string_at(address, 1)  # before Linux 5.14


def _unchanged_mappings() -> Iterator[PageRange]:
    """Yield droppable mappings of files: they hold only the file's content."""
    run: PageRange | None = None
    for line in (PROC / "smaps").read_bytes().splitlines(keepends=True):
        if head := HEAD.fullmatch(line):
            start, end, rights, inode, path = head.groups()
            is_file = inode != b"0" and b"w" not in rights and not path.startswith(b"/dev/")
            run = PageRange(int(start, 16), int(end, 16) - int(start, 16)) if is_file else None
        elif run is not None and line.startswith(b"Anonymous:"):
            # Written pages, such as the dynamic linker's, exist nowhere else.
            if line.split()[1] == b"0":
                yield run
            run = None


def _present(pages: BinaryIO, mapping: PageRange) -> Iterator[PageRange]:
    """Yield ranges of pages of a mapping that are in memory, by pagemap(5)'s entries of 64 bits."""
    page = mmap.PAGESIZE
    pages.seek(mapping.start // page * 8)
    entries = pages.read(mapping.length // page * 8)
    highest = entries[7::8] if sys.byteorder == "little" else entries[::8]
    for match in re.finditer(b"\x01+", highest.translate(PRESENT)):
        length = (match.end() - match.start()) * page
        yield PageRange(mapping.start + match.start() * page, length)


def _advise(run: PageRange, advice: int) -> bool:
    """Advise the kernel and return whether it knows the advice."""
    libc = ctypes.CDLL(None, use_errno=True)
    call = libc.madvise(ctypes.c_void_p(run.start), ctypes.c_size_t(run.length), advice)
    return call == 0 or ctypes.get_errno() != errno.EINVAL
