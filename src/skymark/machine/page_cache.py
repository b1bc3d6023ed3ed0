"""Page cache: fill or drop it before a round, and unmap pages of this process.

A process that has imported a library and now waits does not need the library's code in memory.
Mapped pages would count it as their user and halve a working process's share.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from skymark.machine.cgroup import limits_of

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
                _touch(run)  # before Linux 5.14


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
    call = _libc().madvise(ctypes.c_void_p(run.start), ctypes.c_size_t(run.length), advice)
    return call == 0 or ctypes.get_errno() != errno.EINVAL


def _touch(run: PageRange) -> None:
    for address in range(run.start, run.start + run.length, mmap.PAGESIZE):
        ctypes.string_at(address, 1)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
