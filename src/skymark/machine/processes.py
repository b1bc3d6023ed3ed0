"""Processes of the machine: a snapshot, the end of a tree, and the owner of a connection."""

from __future__ import annotations

import ipaddress
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
KERNEL_THREAD = 0x00200000
"""``PF_KTHREAD`` of a process's flags (include/linux/sched.h)."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process as it was at one moment. `cpu_s` and `reaped_cpu_s` are user plus system time."""

    pid: int
    parent: int
    started: float
    """Start time in ticks since the machine began; with the pid it identifies the process."""
    ended: bool
    """Whether it is a zombie: ended, without memory, and not yet waited for by its parent."""
    cpu_s: float
    """CPU time of the process itself, including ended threads."""
    reaped_cpu_s: float
    """CPU time of descendants that ended and were waited for."""
    name: str = ""
    """Name of the program, of 15 characters at most; of a kernel thread its work in words."""

    @property
    def identity(self) -> tuple[int, float]:
        """The pid with the start time: no later process has both."""
        return self.pid, self.started


class KernelWork(NamedTuple):
    """Work of the kernel's own threads."""

    words: str
    threads: re.Pattern[str]
    """Part of the names of its threads."""
    remedy: str


KERNEL_WORK = (
    KernelWork(
        "the kernel writing to disk",
        re.compile(r"flush-|writeback|jbd2|ext4|xfs|btrfs|f2fs|txg_sync|z_wr_|dmcrypt_write"),
        "wait until what was written is on the disk (`sync` returns then)",
    ),
    KernelWork(
        "the kernel reading or writing disks",
        re.compile(r"blockd|loop\d|nvme|scsi|ata_|raid|md\d|kcryptd|kcopyd|nfs|rpciod|xprtiod"),
        "stop programs that read or write much (`iotop` shows them)",
    ),
    KernelWork(
        "the kernel making room in memory",
        re.compile(r"kswapd|kcompactd|khugepaged|ksmd|kdamond|oom_reaper|zswap|zram"),
        "stop programs that take much memory (`top` shows them)",
    ),
    KernelWork(
        "interrupts of the network or other devices",
        re.compile(r"ksoftirqd|irq/|napi/"),
        "stop what sends or receives much over the network",
    ),
    KernelWork("a kernel thread", re.compile(""), "wait until `top` shows an idle machine"),
)
"""Kinds of a kernel thread's work; the first whose pattern is in its name counts."""


@lru_cache(maxsize=1024)
def kernel_work(thread: str) -> str:
    """Return the work of a kernel thread in words, from its name in ``/proc/PID/stat``."""
    return next(work.words for work in KERNEL_WORK if work.threads.search(thread))


Table = dict[int, Process]
"""Every visible process by pid."""


def tree_of(pid: int, table: Table, exclude: Collection[int] = ()) -> set[int]:
    """Return the pids of a process and its descendants, without excluded subtrees."""
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    tree: set[int] = set()
    waiting = [pid]
    while waiting:
        candidate = waiting.pop()
        if candidate in table and candidate not in tree and candidate not in exclude:
            tree.add(candidate)
            waiting += children.get(candidate, ())
    return tree


def own_cpu_s(process: Process) -> float:
    """Return a process's own CPU time now, to the nanosecond if the kernel has it.

    ``/proc/PID/stat`` counts in ticks of 10 ms, too coarse for a short timed region. Linux also
    has a clock for each process, whose id is made from the pid (``clock_getcpuclockid(3)``).
    """
    try:
        return time.clock_gettime((~process.pid << 3) | 2)
    except OSError:
        return process.cpu_s


def process_table() -> Table:
    """Return every process visible to this user, from ``/proc/PID/stat`` (proc_pid_stat(5))."""
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
        command = line[line.index(b"(") + 1 : line.rindex(b")")].decode(errors="replace")
        table[int(name)] = Process(
            pid=int(name),
            parent=int(fields[1]),
            started=float(fields[19]),
            ended=fields[0] in b"ZX",
            cpu_s=(int(fields[11]) + int(fields[12])) * tick_s,
            reaped_cpu_s=(int(fields[13]) + int(fields[14])) * tick_s,
            name=kernel_work(command) if int(fields[6]) & KERNEL_THREAD else command,
        )
    return table


MARKER_VARIABLE = "SKYMARK_WORKER"
"""Environment variable that marks all processes of a worker."""

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
    """End a process, its descendants and all processes that carry its marker.

    Descendants are listed before the first signal, because a child loses its link when its parent
    ends. Detached processes are found by the marker in their environment. SIGTERM comes first,
    SIGKILL after the grace time. Both repeat while new processes turn up.

    Args:
        pid: the root. If it has ended already, only the marker finds the rest.
        grace_s: time between SIGTERM and SIGKILL.
        marker: the value of ``SKYMARK_WORKER`` that the root was started with.
        settle_s: time for helpers to follow a root that ended by itself.
        spared: processes that carry the marker and stay alive.

    Returns:
        The processes besides the root that were still running, such as ``ray::IDLE (pid 71)``. A
        process that survives is marked as still running.
    """
    hunt = _Hunt(pid, marker, spared)
    root_runs = hunt.root_runs()
    # Helpers that end shortly after a worker are no leak.
    running = hunt.wait_for_end(0.0 if root_runs else settle_s)
    names = {process.identity: _name_of(process) for process in running if process.pid != pid}
    if running:
        _signal(running, signal.SIGTERM)
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


def members(pid: int, marker: str) -> list[Process]:
    """Return a process, its descendants and all that carry its marker, if they run.

    Args:
        pid: the root.
        marker: the value of ``SKYMARK_WORKER`` that the root was started with.
    """
    return _Hunt(pid, marker, ()).running()


class _Hunt:
    """Finder of a tree's processes, which remembers earlier members."""

    def __init__(self, pid: int, marker: str | None, spared: Collection[int]) -> None:
        self._pid = pid
        self._marker = marker
        self._known: dict[tuple[int, float], Process] = {}
        table = process_table()
        self._spared = _ancestors(os.getpid(), table).union(spared)
        if self._owns(table.get(pid)):
            self._remember(tree_of(pid, table), table)

    def root_runs(self) -> bool:
        """Whether the root is among the processes and has not ended."""
        return any(process.pid == self._pid and not process.ended for process in self.running())

    def running(self) -> list[Process]:
        """Return the tree's running processes, the oldest first."""
        table = process_table()
        for process in list(self._known.values()):
            if _is_same(process, table.get(process.pid)):
                self._remember(tree_of(process.pid, table), table)
        if self._marker is not None:
            unknown = (p for p in table.values() if p.identity not in self._known and not p.ended)
            marked = {p.pid for p in unknown if marker_of(p.pid) == self._marker}
            self._remember(marked, table)
        alive = [
            table[process.pid]
            for process in self._known.values()
            if _is_same(process, table.get(process.pid)) and not table[process.pid].ended
        ]
        return sorted(alive, key=lambda process: process.started)

    def wait_for_end(self, seconds: float) -> list[Process]:
        """Wait for the tree's end, up to a time limit, and return the running processes."""
        deadline = time.monotonic() + seconds
        while (running := self.running()) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return running

    def _owns(self, process: Process | None) -> bool:
        """Return whether the pid still belongs to the root, because pids are reused."""
        if process is None or self._marker is None:
            return process is not None
        return process.parent == os.getpid() or marker_of(process.pid) == self._marker

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
            continue  # It ended, or changed to another user: it is reported as still running.


def marker_of(pid: int) -> str | None:
    """Return the marker in a process's environment; None if it has none or is unreadable."""
    try:
        variables = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return None
    start = f"{MARKER_VARIABLE}=".encode()
    found = (one.removeprefix(start) for one in variables if one.startswith(start))
    return next(map(os.fsdecode, found), None)


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


TABLES = tuple(Path("/proc/net", name) for name in ("tcp", "tcp6"))
"""The kernel's lists of the connections of this network namespace (proc_net_tcp.rst)."""
ESTABLISHED = "01"
ACCEPT_S = 10.0
"""Time for a server to accept a connection; older kernels report the owner only after that."""
LOOK_S = 0.01

Address = tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]


class _Row(NamedTuple):
    state: str
    user: int
    inode: int


class UnknownPeerError(OSError):
    """The kernel does not report the owner of the other end."""


def strangers_id(connection: socket.socket) -> int | None:
    """Return the user id of a connection's other end if it belongs to another user.

    Returns:
        None for a process of this user or of root, and for another machine.

    Raises:
        UnknownPeerError: the process is on this machine, and its owner is unknown.
    """
    if not TABLES[0].exists():  # no Linux
        return None
    ours, theirs = _address(connection.getsockname()), _address(connection.getpeername())
    until_s = time.monotonic() + ACCEPT_S
    while time.monotonic() < until_s:
        row = next(_rows(theirs, ours), None)
        if row is None and not (theirs[0].is_loopback or theirs[0] == ours[0]):
            return None
        if row is not None and row.state != ESTABLISHED:
            break
        # Older kernels give root as the owner of a connection until the server accepts it.
        if row is not None and (row.user or row.inode):
            return None if row.user in {0, os.getuid()} else row.user
        time.sleep(LOOK_S)
    raise UnknownPeerError(f"no process of this machine answers at {theirs[0]} port {theirs[1]}")


def _rows(local: Address, remote: Address) -> Iterator[_Row]:
    """Yield the connection between two addresses, as seen from its local end."""
    ports = f":{local[1]:04X}", f":{remote[1]:04X}"
    for table in TABLES:
        try:
            lines = table.read_text().splitlines()[1:]
        except FileNotFoundError:  # a kernel without IPv6
            continue
        for line in lines:
            words = line.split()
            if not (words[1].endswith(ports[0]) and words[2].endswith(ports[1])):
                continue
            if _written(words[1]) == local and _written(words[2]) == remote:
                yield _Row(words[3], int(words[7]), int(words[9]))


def _written(text: str) -> Address:
    """Return an address as the kernel writes it: words of four bytes, in the machine's order."""
    digits, _, port = text.partition(":")
    data = bytes.fromhex(digits)
    if sys.byteorder == "little":
        data = b"".join(data[at : at + 4][::-1] for at in range(0, len(data), 4))
    return _plain(ipaddress.ip_address(data)), int(port, 16)


def _address(name: tuple[str, int] | tuple[str, int, int, int]) -> Address:
    return _plain(ipaddress.ip_address(name[0].partition("%")[0])), name[1]


def _plain(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the IPv4 address that is written as IPv6."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
