"""Processes of the machine: a snapshot of them, and the end of a whole tree for good."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """A process as it was at one moment. `cpu_s` and `reaped_cpu_s` are user plus system time."""

    pid: int
    parent: int
    started: float
    """Start time in ticks since the machine began; with the pid it tells processes apart."""
    ended: bool
    """A zombie: it runs no more and holds no memory, its parent has not asked for its status."""
    cpu_s: float
    """Used by the process itself, threads that ended included."""
    reaped_cpu_s: float
    """Used by children that ended and were waited for, and by theirs."""

    @property
    def identity(self) -> tuple[int, float]:
        """The pid with the start time: no later process has both."""
        return self.pid, self.started


Table = dict[int, Process]
"""Every visible process by pid."""


def tree_of(pid: int, table: Table, exclude: Collection[int] = ()) -> set[int]:
    """Return the pids of a process and its descendants, without the excluded ones and theirs."""
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        candidate = waiting.pop()
        if candidate in table and candidate not in found and candidate not in exclude:
            found.add(candidate)
            waiting += children.get(candidate, ())
    return found


def own_cpu_s(process: Process) -> float:
    """Return a process's own CPU time now, to the nanosecond where the kernel gives it.

    ``/proc/PID/stat`` counts in ticks of 10 ms, too coarse for a short timed region. Linux also
    has a clock for each process, whose id is made from the pid (``clock_getcpuclockid(3)``).
    """
    try:
        return time.clock_gettime((~process.pid << 3) | 2)
    except OSError:
        return process.cpu_s


def process_table() -> Table:
    """Return every process that this user may see, of ``/proc/PID/stat`` (proc_pid_stat(5))."""
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    table: Table = {}
    for name in os.listdir(PROC):  # noqa: PTH208 - plain names are quicker, five times a second
        if not name.isdigit():
            continue
        try:
            with (PROC / name / "stat").open("rb") as file:
                line = file.read()
        except OSError:
            continue  # It ended since the directory was listed.
        # The command's name stands in brackets and may hold anything, so count from its end.
        fields = line[line.rindex(b")") + 2 :].split()
        table[int(name)] = Process(
            pid=int(name),
            parent=int(fields[1]),
            started=float(fields[19]),
            ended=fields[0] in b"ZX",
            cpu_s=(int(fields[11]) + int(fields[12])) * tick_s,
            reaped_cpu_s=(int(fields[13]) + int(fields[14])) * tick_s,
        )
    return table


MARKER_VARIABLE = "SKYMARK_WORKER"
"""Environment variable whose value tells a worker's processes, wherever they went."""

SETTLE_S = 1.0
"""Time that helper processes, such as a resource tracker, may take to follow their parent."""

KILL_PATIENCE_S = 5.0
"""Time for the kernel to end processes after SIGKILL."""

POLL_S = 0.01


def kill_tree(
    pid: int,
    grace_s: float = 2.0,
    marker: str | None = None,
    settle_s: float = SETTLE_S,
    spared: Collection[int] = (),
) -> tuple[str, ...]:
    """End a process, all that it started and all that carry its marker.

    Descendants are noted before the first signal, because a child whose parent ended is nobody's
    child any more. Those that changed session or detached themselves are found by the marker in
    their environment. SIGTERM first, SIGKILL after the grace time; repeated while new ones turn up.

    Args:
        pid: the root. It may have ended already; then only the marker finds what is left.
        grace_s: time between SIGTERM and SIGKILL.
        marker: the value of ``SKYMARK_WORKER`` that the root was started with.
        settle_s: time that helpers of a root that has ended by itself may take to follow it.
        spared: processes that carry the marker and are to live on.

    Returns:
        The processes besides the root that were still running, such as ``ray::IDLE (pid 71)``;
        one that could not be ended even so is said to be still running.
    """
    hunt = _Hunt(pid, marker, spared)
    root_runs = hunt.root_runs()
    # A worker that left properly may have helpers about to follow it: those are no leak.
    found = hunt.wait_for_end(0.0 if root_runs else settle_s)
    names = {process.identity: _name_of(process) for process in found if process.pid != pid}
    if found:
        _signal(found, signal.SIGTERM)
        remaining = hunt.wait_for_end(grace_s)
        deadline = time.monotonic() + KILL_PATIENCE_S
        while remaining and time.monotonic() < deadline:
            for process in remaining:
                if process.pid != pid:
                    names.setdefault(process.identity, _name_of(process))
            _signal(remaining, signal.SIGKILL)
            remaining = hunt.wait_for_end(SETTLE_S)
        for process in remaining:
            names[process.identity] = f"{_name_of(process)}, still running"
    return tuple(names.values())


class _Hunt:
    """Finds a tree again and again, remembering who belonged to it."""

    def __init__(self, pid: int, marker: str | None, spared: Collection[int]) -> None:
        self._pid = pid
        self._marker = marker
        self._known: dict[tuple[int, float], Process] = {}
        table = process_table()
        self._spared = _ancestors(os.getpid(), table).union(spared)
        if self._owns(table.get(pid)):
            self._remember(tree_of(pid, table), table)

    def root_runs(self) -> bool:
        """Whether the root is among the processes found and has not ended."""
        return any(process.pid == self._pid and not process.ended for process in self.running())

    def running(self) -> list[Process]:
        """Return the tree's processes that run now, the oldest first."""
        table = process_table()
        for process in list(self._known.values()):
            if _is_same(process, table.get(process.pid)):
                self._remember(tree_of(process.pid, table), table)
        if self._marker is not None:
            unknown = (p for p in table.values() if p.identity not in self._known and not p.ended)
            marked = {p.pid for p in unknown if _marker_of(p.pid) == self._marker}
            self._remember(marked, table)
        alive = [
            table[process.pid]
            for process in self._known.values()
            if _is_same(process, table.get(process.pid)) and not table[process.pid].ended
        ]
        return sorted(alive, key=lambda process: process.started)

    def wait_for_end(self, seconds: float) -> list[Process]:
        """Wait until nothing runs any more, at most so long; returns what still runs."""
        deadline = time.monotonic() + seconds
        while (running := self.running()) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return running

    def _owns(self, process: Process | None) -> bool:
        """Whether the pid still is the root: the root may have ended and its pid been reused."""
        if process is None or self._marker is None:
            return process is not None
        return process.parent == os.getpid() or _marker_of(process.pid) == self._marker

    def _remember(self, pids: Collection[int], table: Table) -> None:
        for pid in set(pids) - self._spared:
            self._known.setdefault(table[pid].identity, table[pid])


def _ancestors(pid: int, table: Table) -> set[int]:
    line = {pid}
    while (process := table.get(pid)) is not None and process.parent not in line:
        pid = process.parent
        line.add(pid)
    return line


def _is_same(before: Process, now: Process | None) -> bool:
    return now is not None and now.identity == before.identity


def _signal(processes: Collection[Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            os.kill(process.pid, number)
        except (ProcessLookupError, PermissionError):
            continue  # It ended meanwhile, or turned into another user's: it is reported as left.


def _marker_of(pid: int) -> str | None:
    """Return the marker a process was started with; None without one or if it may not be read."""
    import psutil

    try:
        marker: str | None = psutil.Process(pid).environ().get(MARKER_VARIABLE)
    except (psutil.Error, OSError):
        return None
    return marker


def _name_of(process: Process) -> str:
    import psutil

    try:
        words = psutil.Process(process.pid).cmdline()
        name = psutil.Process(process.pid).name()
    except psutil.Error:
        return f"pid {process.pid}"
    program = Path(words[0]).name if words else name
    detail = " ".join([program, *words[1:3]])[:80]
    return f"{detail} (pid {process.pid})"
