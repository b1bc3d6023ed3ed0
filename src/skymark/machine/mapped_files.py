"""Pages of files that this process has mapped, such as the code of libraries: drop, map again.

A process that has imported a library and now waits does not need the library's code in memory. If
it kept the pages, it would count as their user and halve the share of a process that works.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

PROC = Path("/proc/self")
DONTNEED, POPULATE_READ = 4, 22
"""Advice of madvise(2)."""
HEAD = re.compile(rb"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ (\d+)\s*(.*)\n")
"""The first line of a mapping in smaps, as proc_pid_smaps(5) has it."""
PRESENT = bytes(int(byte >= 0x80) for byte in range(256))
"""Whether a page is in memory, by the highest byte of its entry in pagemap."""


class Run(NamedTuple):
    """Addresses of pages, one after the other."""

    start: int
    length: int


class MappedFiles:
    """The pages of files that are mapped when this is made; none where the kernel does not tell."""

    def __init__(self) -> None:
        self._mappings = tuple(_unchanged_mappings()) if sys.platform == "linux" else ()
        self._present: tuple[Run, ...] = ()
        if self._mappings:
            with (PROC / "pagemap").open("rb", buffering=0) as pages:
                found = [run for one in self._mappings for run in _present(pages, one)]
            self._present = tuple(found)

    @property
    def bytes(self) -> int:
        """How much memory the pages are."""
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


def _unchanged_mappings() -> Iterator[Run]:
    """Yield mappings of files that hold nothing but the file's content: those can be dropped."""
    run: Run | None = None
    for line in (PROC / "smaps").read_bytes().splitlines(keepends=True):
        if head := HEAD.fullmatch(line):
            start, end, rights, inode, path = head.groups()
            is_file = inode != b"0" and b"w" not in rights and not path.startswith(b"/dev/")
            run = Run(int(start, 16), int(end, 16) - int(start, 16)) if is_file else None
        elif run is not None and line.startswith(b"Anonymous:"):
            # Pages that were written, as by the dynamic linker, are nowhere else.
            if line.split()[1] == b"0":
                yield run
            run = None


def _present(pages: BinaryIO, mapping: Run) -> Iterator[Run]:
    """Yield the runs of a mapping's pages that are mapped, by pagemap(5)'s entries of 64 bits."""
    page = mmap.PAGESIZE
    pages.seek(mapping.start // page * 8)
    entries = pages.read(mapping.length // page * 8)
    highest = entries[7::8] if sys.byteorder == "little" else entries[::8]
    for found in re.finditer(b"\x01+", highest.translate(PRESENT)):
        length = (found.end() - found.start()) * page
        yield Run(mapping.start + found.start() * page, length)


def _advise(run: Run, advice: int) -> bool:
    """Advise the kernel; whether it knows the advice. Pages that it keeps stay as they are."""
    call = _libc().madvise(ctypes.c_void_p(run.start), ctypes.c_size_t(run.length), advice)
    return call == 0 or ctypes.get_errno() != errno.EINVAL


def _touch(run: Run) -> None:
    for address in range(run.start, run.start + run.length, mmap.PAGESIZE):
        ctypes.string_at(address, 1)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
