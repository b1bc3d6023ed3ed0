"""Sampler of a process tree: CPU time, memory and number of processes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from skymark.machine.processes import (
    PROC,
    Process,
    Table,
    own_cpu_s,
    process_table,
    tree_of,
)
from skymark.measure.machine_watch import MachineWatch
from skymark.model.record import MachineUse, Resources

DUTY = 0.01
"""Largest share of one core that sampling may take; a costly sample makes the pauses longer."""

_spent_here_s = 0.0


def cpu_seconds_of_tree(pid: int, exclude: Collection[int] = ()) -> float:
    """Return the CPU seconds that a tree has used, including children that ended.

    Call it in the process itself, right before and right after the measured work; the difference is
    the CPU time in between. It is exact to the 10 ms tick for children that ended in between, and
    better for the rest. The cost of the calls themselves is subtracted.

    Args:
        pid: the root of the tree.
        exclude: processes left out, with everything below them.
    """
    global _spent_here_s  # noqa: PLW0603 - the process's own clock goes on counting, so must this
    begin = time.thread_time()
    table = process_table()
    members = tree_of(pid, table, exclude)
    used = sum(table[member].reaped_cpu_s for member in members)
    used += sum(own_cpu_s(table[member]) for member in members - {pid})
    if pid != os.getpid():
        return used + own_cpu_s(table[pid])
    root = own_cpu_s(table[pid])
    _spent_here_s += time.thread_time() - begin
    return used + root - _spent_here_s


def pss_bytes(pid: int) -> int | None:
    """Return a process's proportional set size: shared pages divided by their users.

    In bytes. Pages of memory-mapped files count while they are mapped and resident. A process that
    has ended has 0. None without ``smaps_rollup`` (before Linux 4.14), or for another user's
    process.
    """
    mapped = _mapped_bytes(pid)
    return None if mapped is None else mapped.get(b"Pss", 0)


def shared_bytes(pid: int) -> int | None:
    """Return the part of a process's `pss_bytes` in pages that other processes map, too."""
    mapped = _mapped_bytes(pid)
    if mapped is None:
        return None
    private = mapped.get(b"Private_Clean", 0) + mapped.get(b"Private_Dirty", 0)
    return max(0, mapped.get(b"Pss", 0) - private)


def _mapped_bytes(pid: int) -> dict[bytes, int] | None:
    """Return a process's memory by kind; empty for an ended process, None if it is unknown."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_bytes().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        # The file is missing for a process that lives: an old kernel, not an ended process.
        return None if (PROC / str(pid) / "maps").exists() else {}
    except PermissionError:
        return None
    fields = (line.split() for line in lines if line.endswith(b"kB"))
    return {name.rstrip(b":"): int(size) * 1024 for name, size, _ in fields}


def pss_bytes_of_tree(pid: int, exclude: Collection[int] = ()) -> int | None:
    """Return the memory of a tree, as `pss_bytes`; None if a process's is unknown.

    Args:
        pid: the root of the tree.
        exclude: processes left out, with everything below them.
    """
    sizes = [pss_bytes(member) for member in tree_of(pid, process_table(), exclude)]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def own_bytes_of_tree(pid: int, exclude: Collection[int] = ()) -> int:
    """Return the memory of a tree that does not merely show files: anonymous and shared memory.

    Memory that processes share counts once for each.

    Args:
        pid: the root of the tree.
        exclude: processes left out, with everything below them.
    """
    kib = 0
    for member in tree_of(pid, process_table(), exclude):
        with suppress(OSError):  # it has just ended
            lines = Path(f"/proc/{member}/status").read_text().splitlines()
            fields = dict(line.split(":", 1) for line in lines)
            kib += sum(int(fields.get(name, "0").split()[0]) for name in ("RssAnon", "RssShmem"))
    return kib * 1024


def queued_seconds_of_tree(pid: int) -> float:
    """Return the time that the threads of a tree were ready to run while others had the processors.

    Linux only; 0 where the kernel does not count it. Threads that have ended do not count.

    Args:
        pid: the root of the tree.
    """
    queued_ns = 0
    for member in tree_of(pid, process_table(), ()):
        for task in Path(f"/proc/{member}/task").glob("*/schedstat"):
            with suppress(OSError):  # it has just ended
                queued_ns += int(task.read_text().split()[1])
    return queued_ns / 1e9


class TreeSampler:
    """Watches a process tree from outside, in a thread, between `begin` and `end`.

    CPU time counts processes that start or end in between. An ended child counts through the parent
    that waited for it. A detached process that ended counts up to its last sample. Also a context
    manager, which begins and ends.
    """

    def __init__(
        self,
        pid: int,
        interval_s: float = 0.2,
        exclude: Collection[int] = (),
        forked_from: int | None = None,
        machine: MachineWatch | None = None,
    ) -> None:
        """Get ready to watch.

        Args:
            pid: the root of the tree.
            interval_s: least time between two samples.
            exclude: processes left out, with everything below them.
            forked_from: a process outside the tree that only waits. Pages that it shares with the
                tree count as the tree's alone.
            machine: notes the use of the processors by others meanwhile; None for no note.
        """
        self._pid = pid
        self._forked_from = forked_from
        self._machine = machine
        self._machine_use: MachineUse | None = None
        self._interval_s = interval_s
        self._exclude = frozenset(exclude)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._ledger = _CpuLedger(pid, self._exclude)
        self._cpu_at_begin = 0.0
        self._resources = Resources()
        self._peak_pss: int | None = 0
        self._most_pages = 0
        """Most resident pages of the tree while it was one process."""
        self._most_processes = 0

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def begin(self) -> None:
        """Start to watch; earlier use does not count. Restarts a sampler that ended."""
        self.end()
        self._stop.clear()
        self._ledger = _CpuLedger(self._pid, self._exclude)
        self._peak_pss, self._most_processes, self._most_pages = 0, 0, 0
        self._sample(self._begin_note)
        self._cpu_at_begin = self._ledger.cpu_s
        self._thread = threading.Thread(target=self._watch, name="skymark-sampler", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Take a last sample and stop; safe to call again."""
        if self._thread is None:
            return
        self._stop.set()
        self._thread.join()
        self._thread = None
        self._sample(self._end_note)
        seen = self._most_processes > 0
        self._resources = Resources(
            cpu_s=max(0.0, self._ledger.cpu_s - self._cpu_at_begin) if seen else None,
            peak_pss_bytes=self._peak_pss or None,
            processes=self._most_processes or None,
        )

    def resources(self) -> Resources:
        """Return the tree's use between `begin` and `end`; empty before the first `end`."""
        return self._resources

    def machine_use(self) -> MachineUse | None:
        """Return the use of the processors by others between `begin` and `end`."""
        return self._machine_use

    def _begin_note(self, table: Table) -> None:
        if self._machine is not None:
            self._machine.begin(self._ledger.with_excluded_s, table)

    def _end_note(self, table: Table) -> None:
        if self._machine is not None:
            own = self._ledger.pids | tree_of(os.getpid(), table)
            self._machine_use = self._machine.end(self._ledger.with_excluded_s, table, own)

    def _watch(self) -> None:
        pause_s = self._interval_s
        while not self._stop.wait(pause_s):
            begin = time.thread_time()
            self._sample()
            pause_s = max(self._interval_s, (time.thread_time() - begin) / DUTY)

    def _sample(self, note: Callable[[Table], None] = lambda _: None) -> None:
        table = process_table()
        running = self._ledger.update(table)
        note(table)
        self._most_processes = max(self._most_processes, len(running))
        if self._is_no_larger(running):
            return
        sizes = [pss_bytes(pid) for pid in running]
        if self._forked_from is not None and running:
            sizes.append(shared_bytes(self._forked_from))
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes) or self._peak_pss is None:
            self._peak_pss = None  # A sum over some of the processes would look like the whole.
        else:
            self._peak_pss = max(self._peak_pss, sum(known))

    def _is_no_larger(self, running: Collection[int]) -> bool:
        """Return whether the tree is one process that has no more pages than ever before.

        The kernel counts a process's pages all the time, but walks through all of them for their
        shares. A share alone, of a page that others stop using, is too small to read them again.
        """
        if len(running) != 1 or self._forked_from is not None:
            return False
        (pid,) = running
        try:
            pages = int((PROC / str(pid) / "statm").read_text().split()[1])
        except OSError:  # it has just ended
            return False
        grew, self._most_pages = pages > self._most_pages, max(pages, self._most_pages)
        return not grew


class _CpuLedger:
    """Sums the CPU time of a tree over time, so that nothing counts twice or is lost."""

    def __init__(self, pid: int, exclude: frozenset[int]) -> None:
        self._pid = pid
        self._exclude = exclude
        self._members: dict[tuple[int, float], Process] = {}
        self._excluded: dict[tuple[int, float], Process] = {}
        self._lost_s = 0.0
        """CPU time of ended members that no member waited for."""
        self._foreign_s = 0.0
        """CPU time of excluded processes that a member waited for: its reaped time includes
        them."""
        self.cpu_s = 0.0

    @property
    def pids(self) -> set[int]:
        """The processes of the tree in the last sample, and the excluded ones."""
        return {process.pid for process in (*self._members.values(), *self._excluded.values())}

    @property
    def with_excluded_s(self) -> float:
        """CPU seconds of the tree and of the excluded processes that are still there."""
        excluded = self._excluded.values()
        return self.cpu_s + sum(process.cpu_s + process.reaped_cpu_s for process in excluded)

    def update(self, table: Table) -> list[int]:
        """Add one sample of the processes and return the running pids."""
        roots = [self._pid] + [
            process.pid
            for process in self._members.values()
            # A process seen in the tree before stays in it, even with a new parent.
            if process.pid in table and table[process.pid].started == process.started
        ]
        pids = set().union(*(tree_of(root, table, self._exclude) for root in roots))
        excluded = set().union(*(tree_of(pid, table) for pid in self._exclude)) - pids
        members = _with_exact_time(pids, table)
        outsiders = _with_exact_time(excluded, table)
        parents = {process.pid for process in self._members.values()}
        for identity, process in self._members.items():
            if identity not in members and process.parent not in parents:
                self._lost_s += process.cpu_s + process.reaped_cpu_s
        for identity, process in self._excluded.items():
            if identity not in outsiders and process.parent in parents:
                self._foreign_s += process.cpu_s + process.reaped_cpu_s
        self._members, self._excluded = members, outsiders
        living_s = sum(process.cpu_s + process.reaped_cpu_s for process in members.values())
        self.cpu_s = living_s + self._lost_s - self._foreign_s
        return [process.pid for process in members.values() if not process.ended]


def _with_exact_time(pids: set[int], table: Table) -> dict[tuple[int, float], Process]:
    return {table[pid].identity: replace(table[pid], cpu_s=own_cpu_s(table[pid])) for pid in pids}
