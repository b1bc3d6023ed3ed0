"""Faults of the machine that end a round: no memory, no shared memory, no files, a lost process.

Libraries report such faults in many ways, or not at all: a batch without room in shared memory is
dropped, and its consumer waits for ever. So skymark inspects the machine, and searches the cell's
log for the kernel's error messages.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from skymark.machine.cgroup import (
    MORE_FILES,
    MORE_MEMORY,
    MORE_SHARED_MEMORY,
    SHARED_MEMORY,
    USUAL_OPEN_FILES,
    limits_of,
    oom_kills,
    room_here,
)
from skymark.machine.processes import PROC, process_table, tree_of
from skymark.model.record import Cause
from skymark.model.sizes import size_text

LOOK_S = 2.0
"""Time between two inspections of a worker that has not answered."""

IDLE_S = 8.0
"""Time without CPU use after which a process tree with a fault counts as hung."""

IDLE_CPU_S = 0.2
"""CPU seconds in that time that count as no use."""

TAIL_BYTES = 1 << 18
"""Bytes to read at the end of a round's log."""

FULL_SHARE = 0.02
"""Shared memory with a smaller free share is full."""

NO_FILES = re.compile(rb"Too many open files|EMFILE", re.IGNORECASE)
NO_SHARED_MEMORY = re.compile(
    rb"unable to (allocate|open|write|resize) shared memory|insufficient shared memory|"
    rb"out of shared memory|Bus error|SIGBUS|killed by signal 7\b|exit ?code -7\b|"
    rb"/dev/shm[^\n]*No space left|No space left[^\n]*/dev/shm",
    re.IGNORECASE,
)
NO_SPACE = re.compile(rb"No space left on device|ENOSPC")
NO_MEMORY = re.compile(rb"Cannot allocate memory|MemoryError|std::bad_alloc")

FATAL = frozenset({signal.SIGKILL, signal.SIGBUS, signal.SIGSEGV, signal.SIGABRT, signal.SIGILL})
"""Signals that a library does not use to end its own processes."""


@dataclass
class RoundWatch:
    """One round of a worker, observed from outside."""

    log: Path
    """Log of the cell."""
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._begin = self.log.stat().st_size if self.log.exists() else 0
        self._oom_kills = oom_kills()
        self._idle_since = self.clock()
        self._cpu_s = 0.0

    def look(self, pid: int) -> Cause | None:
        """Return the fault that a worker hangs on; None while it may still work.

        Args:
            pid: process id of the worker; its child processes are inspected, too.
        """
        table = process_table()
        members = [table[one] for one in tree_of(pid, table)]
        now, cpu_s = self.clock(), sum(one.cpu_s + one.reaped_cpu_s for one in members)
        if abs(cpu_s - self._cpu_s) > IDLE_CPU_S:
            self._cpu_s, self._idle_since = cpu_s, now
        if now - self._idle_since < IDLE_S:
            return None
        lost = [one.pid for one in members if one.ended and one.pid != pid]
        signals = [number for one in lost if (number := _signal_of(one)) in FATAL]
        room = room_here()
        free, size = room.free_shared_memory_bytes, room.shared_memory_bytes
        if fault := self.fault("", *signals[:1]):
            return fault
        if size and (free or 0) < FULL_SHARE * size:
            return _no_shared_memory()
        if not signals:
            return None
        return Cause(
            kind="lost-process",
            message=f"a process of the library was killed by signal {signals[0]}, and its other "
            "processes wait for it",
            action="see the cell's log, and the kernel's (dmesg)",
        )

    def fault(self, message: str, killed_by: int | None = None) -> Cause | None:
        """Return the machine's fault that made a round fail; None for other causes.

        Args:
            message: the worker's error message.
            killed_by: the signal that ended a process, if any.
        """
        said = message.encode() + b"\n" + self._tail()
        if oom_kills() > self._oom_kills:
            return _out_of_memory()
        if killed_by == signal.SIGBUS or NO_SHARED_MEMORY.search(said):
            return _no_shared_memory()
        if NO_FILES.search(said):
            return _no_files()
        if NO_SPACE.search(said):
            return _no_space()
        return _out_of_memory(killed=False) if NO_MEMORY.search(said) else None

    def _tail(self) -> bytes:
        """Return the end of the round's log, with its library's output."""
        if not self.log.exists():
            return b""
        size = self.log.stat().st_size
        begin = self._begin if self._begin <= size else 0  # else the log was shortened meanwhile
        with self.log.open("rb") as file:
            file.seek(max(begin, size - TAIL_BYTES))
            return file.read(TAIL_BYTES)


def _signal_of(pid: int) -> int | None:
    """Return the signal that ended a process which was not reaped yet; None without one."""
    try:
        fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    # The last field is the status as from waitpid; 0 if this process may not read it.
    return int(fields[-1]) & 0x7F or None


def _out_of_memory(*, killed: bool = True) -> Cause:
    limit = limits_of().memory_limit_bytes
    what = "killed by the kernel for memory" if killed else "no memory could be allocated"
    bound = "" if limit is None else f": the control group's limit is {size_text(limit)}"
    return Cause(kind="out-of-memory", message=f"{what}{bound}", action=MORE_MEMORY)


def _no_shared_memory() -> Cause:
    size = room_here().shared_memory_bytes
    bound = "" if size is None else f": it has {size_text(size)}"
    return Cause(
        kind="shared-memory-full",
        message=f"{SHARED_MEMORY} is full{bound}, and workers pass batches through it",
        action=MORE_SHARED_MEMORY,
    )


def _no_files() -> Cause:
    limit = room_here().open_files
    return Cause(
        kind="too-many-open-files",
        message=f"too many open files: a process may open {limit}",
        action=MORE_FILES.format(USUAL_OPEN_FILES),
    )


def _no_space() -> Cause:
    return Cause(
        kind="device-full",
        message="a device is full: the library found no space left on it",
        action=f"free some space in the temporary directory, in SKYMARK_CACHE or in "
        f"{SHARED_MEMORY}; the cell's log names the file",
    )
