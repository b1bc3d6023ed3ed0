"""Limits, free resources and cores of this machine, and the needs of workers."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from skymark.model.base import Frozen
from skymark.model.machine import ProcessLimits
from skymark.model.record import Cause
from skymark.model.sizes import size_text

NO_LIMIT_BYTES = 1 << 60
"""Control groups of version 1 write a number near 2**63 for no limit."""


def limits_of(
    proc: Path = Path("/proc/self"), cgroups: Path = Path("/sys/fs/cgroup"), root: Path = Path("/")
) -> ProcessLimits:
    """Return the limits that hold for this process, of control groups version 1 and 2.

    Every enclosing group's limit applies, so the strictest on the way to the root counts. Source:
    https://docs.kernel.org/admin-guide/cgroup-v2.html and cgroup-v1.
    """
    groups = _groups_of(proc / "cgroup", cgroups)
    quotas = [quota for group in groups if (quota := _quota_cores(group)) is not None]
    memory = [limit for group in groups if (limit := _memory_limit(group)) is not None]
    throttled = [share for group in groups if (share := _throttled_share(group)) is not None]
    return ProcessLimits(
        usable_cores=len(os.sched_getaffinity(0)),
        cpu_quota_cores=min(quotas, default=None),
        cpu_throttled_share=max(throttled, default=None),
        memory_limit_bytes=min(memory, default=None),
        container=container_of(root),
    )


def _groups_of(file: Path, cgroups: Path) -> list[Path]:
    """Return the directories of the process's groups and of their enclosing groups."""
    groups: list[Path] = []
    for line in (text_of(file) or "").splitlines():
        _, controllers, path = line.split(":", 2)
        hierarchy = cgroups if not controllers else cgroups / controllers.removeprefix("name=")
        group = hierarchy / path.lstrip("/")
        while group != hierarchy.parent:
            if group.is_dir():
                groups.append(group)
            group = group.parent
    return list(dict.fromkeys(groups))


def _quota_cores(group: Path) -> float | None:
    if (line := text_of(group / "cpu.max")) is not None:
        quota, period = line.split()
        return None if quota == "max" else int(quota) / int(period)
    quota_us = _number(group / "cpu.cfs_quota_us")
    period_us = _number(group / "cpu.cfs_period_us")
    if quota_us is None or quota_us <= 0 or not period_us:
        return None
    return quota_us / period_us


def _memory_limit(group: Path) -> int | None:
    limit = _number(group / "memory.max")
    if limit is None:
        limit = _number(group / "memory.limit_in_bytes")
    return None if limit is None or limit >= NO_LIMIT_BYTES else limit


def oom_kills(proc: Path = Path("/proc/self"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the number of processes in this process's control groups killed for memory."""
    counts = []
    for group in _groups_of(proc / "cgroup", cgroups):
        for name in ("memory.events", "memory.oom_control"):
            lines = (line.split() for line in (text_of(group / name) or "").splitlines())
            counts += [int(words[1]) for words in lines if words[:1] == ["oom_kill"]]
    return sum(counts)


def cpu_groups() -> tuple[Path, ...]:
    """Return the directories of the process's groups that count stops for a quota."""
    groups = _groups_of(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    return tuple(group for group in groups if _cpu_counts(group))


def throttled_s(groups: Iterable[Path]) -> float | None:
    """Return the seconds in which one of some groups was stopped; None without a group."""
    stopped = [
        counts.get("throttled_usec", 0) / 1e6 + counts.get("throttled_time", 0) / 1e9
        for counts in map(_cpu_counts, groups)
    ]
    return max(stopped, default=None)


def _cpu_counts(group: Path) -> dict[str, int]:
    lines = (line.split() for line in (text_of(group / "cpu.stat") or "").splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) == 2}


def _throttled_share(group: Path) -> float | None:
    counts = _cpu_counts(group)
    periods = counts.get("nr_periods", 0)
    return counts["nr_throttled"] / periods if periods and "nr_throttled" in counts else None


def container_of(root: Path = Path("/")) -> str | None:
    """Return the kind of container by its marks; None outside a container."""
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    # systemd's interface for containers: https://systemd.io/CONTAINER_INTERFACE/
    return text_of(root / "run/systemd/container") or None


def _number(path: Path) -> int | None:
    text = text_of(path)
    return int(text) if text is not None and text.lstrip("-").isdigit() else None


def text_of(path: Path) -> str | None:
    """Return the text of a kernel file; None if it is unreadable."""
    try:
        return path.read_text().strip()
    except OSError:
        return None


SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  # no temporary file: its size is asked for

FILES_OF_SKYMARK = 48
"""Open files of a process besides batches: libraries, data, pipes."""


class Need(Frozen):
    """Upper bound of the needs of a cell's processes."""

    shared_memory_bytes: int = 0
    """Bytes of batches in shared memory at a time; 0 if unknown."""
    open_files: int = 0
    """Open files of one process, beyond the files that every process has."""
    memory_bytes: int = 0


class Room(Frozen):
    """Free resources of the machine. Null is unknown, or no limit."""

    shared_memory_bytes: int | None = None
    """The size of the file system of shared memory."""
    free_shared_memory_bytes: int | None = None
    open_files: int | None = None
    """The limit of open files of one process."""
    memory_limit_bytes: int | None = None
    """The memory limit of the control group."""


def room_here(shared_memory: Path = SHARED_MEMORY) -> Room:
    """Return the free resources for this process and its children."""
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    size, free = _size_of(shared_memory)
    return Room(
        shared_memory_bytes=size,
        free_shared_memory_bytes=free,
        open_files=None if open_files == resource.RLIM_INFINITY else open_files,
        memory_limit_bytes=limits_of().memory_limit_bytes,
    )


def shortage(need: Need, room: Room) -> Cause | None:
    """Return the missing resource that would make a cell fail; None if nothing is missing."""
    free = room.free_shared_memory_bytes
    if free is not None and need.shared_memory_bytes > free:
        return Cause(
            kind="little-shared-memory",
            message=f"{SHARED_MEMORY} has {size_text(free)} free of "
            f"{size_text(room.shared_memory_bytes or free)}, and the batches that workers hold "
            f"ready there take {size_text(need.shared_memory_bytes)}",
            action=MORE_SHARED_MEMORY,
        )
    files = FILES_OF_SKYMARK + need.open_files
    if room.open_files is not None and need.open_files and files > room.open_files:
        return Cause(
            kind="few-open-files",
            message=f"a process may open {room.open_files} files, and the batches that workers "
            f"hold ready take about {files}",
            action=MORE_FILES.format(max(USUAL_OPEN_FILES, 2 * files)),
        )
    limit = room.memory_limit_bytes
    if limit is not None and need.memory_bytes > limit:
        return Cause(
            kind="little-memory",
            message=f"the control group may use {size_text(limit)} of memory, and the batches "
            f"that workers hold ready take {size_text(need.memory_bytes)}",
            action=MORE_MEMORY,
        )
    return None


MORE_SHARED_MEMORY = (
    "give the container more (--shm-size=8g or --ipc=host), or choose smaller batches, fewer "
    "--workers and a smaller --prefetch"
)
USUAL_OPEN_FILES = 4096
MORE_FILES = "raise the limit with: ulimit -n {}; or give fewer --workers and a smaller --prefetch"
MORE_MEMORY = (
    "give the container or the job more memory, or choose smaller batches, fewer --workers and a "
    "smaller --prefetch"
)


def _size_of(directory: Path) -> tuple[int | None, int | None]:
    """Return the size and the free bytes of a file system; None for both if it is absent."""
    if not directory.is_dir():
        return None, None
    status = os.statvfs(directory)
    return status.f_frsize * status.f_blocks, status.f_frsize * status.f_bavail


FEWEST = 3
"""Least cores of a machine that gives a core to a server: of two cores, that would be half."""


@dataclass(frozen=True)
class Division:
    """Cores of the measured processes and of a server; both are all cores if shared."""

    measured: frozenset[int]
    server: frozenset[int]

    def __str__(self) -> str:
        if self.measured == self.server:
            return f"measured and server {ranges(self.measured)}"
        return f"measured {ranges(self.measured)}, server {ranges(self.server)}"


def divided(cores: Iterable[int]) -> Division:
    """Give the last core to the server if there are at least `FEWEST`; else share all cores."""
    every = frozenset(cores)
    if len(every) < FEWEST:
        return Division(every, every)
    server = frozenset({max(every)})
    return Division(every - server, server)


@contextmanager
def apart(server: int) -> Iterator[Division]:
    """Pin a server and the rest of this process's tree to separate cores within the context.

    New processes and threads inherit the cores of their parent.

    Args:
        server: the process's id.
    """
    every = os.sched_getaffinity(0)
    division = divided(every)
    try:
        if division.measured != division.server:
            keep_to(division.server, [server])
            keep_to(division.measured, tree_without(server))
        yield division
    finally:
        if division.measured != division.server:
            keep_to(every, tree_without(server))


def tree_without(left_out: int) -> list[int]:
    """Return this process and its descendants, except one."""
    import psutil

    children = psutil.Process().children(recursive=True)
    return [os.getpid(), *(child.pid for child in children if child.pid != left_out)]


def keep_to(cores: Iterable[int], processes: Iterable[int]) -> None:
    """Pin all threads of processes to these cores; ended processes are skipped."""
    every = frozenset(cores)
    for process in processes:
        with suppress(ProcessLookupError, FileNotFoundError):
            for thread in Path(f"/proc/{process}/task").iterdir():
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread.name), every)


def ranges(cores: Iterable[int]) -> str:
    """Return cores as text: ``0-2,5``."""
    runs = groupby(enumerate(sorted(cores)), lambda pair: pair[1] - pair[0])
    numbers = [[core for _, core in run] for _, run in runs]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in numbers)
