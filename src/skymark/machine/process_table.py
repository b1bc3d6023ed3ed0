"""Snapshot of the machine's processes: parents, children and CPU time."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """A process as it was at one moment. `cpu_s` and `reaped_cpu_s` are user plus system time."""

    pid: int
    parent: int
    started: float
    """Start time in a unit of the platform's; with the pid it tells processes apart."""
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


def process_table() -> Table:
    """Return every process that this user may see."""
    if sys.platform == "linux":
        return {process.pid: process for process in _linux_processes()}
    return {process.pid: process for process in _psutil_processes()}


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
    if sys.platform == "linux":
        try:
            return time.clock_gettime((~process.pid << 3) | 2)
        except OSError:
            return process.cpu_s
    return process.cpu_s


def _linux_processes() -> Iterator[Process]:
    """Yield from ``/proc/PID/stat``; see proc_pid_stat(5) for the fields."""
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
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
        yield Process(
            pid=int(name),
            parent=int(fields[1]),
            started=float(fields[19]),
            ended=fields[0] in b"ZX",
            cpu_s=(int(fields[11]) + int(fields[12])) * tick_s,
            reaped_cpu_s=(int(fields[13]) + int(fields[14])) * tick_s,
        )


def _psutil_processes() -> Iterator[Process]:
    """Yield from psutil. Some platforms do not tell the CPU time of children that ended."""
    import psutil

    for process in psutil.process_iter(["ppid", "create_time", "status", "cpu_times"]):
        times = process.info["cpu_times"]
        yield Process(
            pid=process.pid,
            parent=process.info["ppid"] or 0,
            started=process.info["create_time"] or 0.0,
            ended=process.info["status"] == psutil.STATUS_ZOMBIE,
            cpu_s=times.user + times.system if times else 0.0,
            reaped_cpu_s=(
                getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
            ),
        )
