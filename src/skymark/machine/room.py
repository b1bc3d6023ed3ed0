"""Room of this machine for worker processes: shared memory, open files, and memory."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

from skymark.machine.cgroup import limits_of
from skymark.model.base import Frozen
from skymark.model.record import Cause

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  # no temporary file: its size is asked for

FILES_OF_SKYMARK = 48
"""Files that a process has open besides those of its batches: libraries, data, pipes."""


class Need(Frozen):
    """The most that a cell's processes need of this machine."""

    shared_memory_bytes: int = 0
    """Batches that lie in shared memory at a time; 0 where none is known to."""
    open_files: int = 0
    """Files of one process, those that every process has apart."""
    memory_bytes: int = 0


class Room(Frozen):
    """The room that there is. Null is unknown, or no limit."""

    shared_memory_bytes: int | None = None
    """The size of its file system."""
    free_shared_memory_bytes: int | None = None
    open_files: int | None = None
    """The limit of one process."""
    memory_limit_bytes: int | None = None
    """Of the control group."""


def room_here(shared_memory: Path = SHARED_MEMORY) -> Room:
    """Return the room that this process and those that it starts have."""
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    size, free = _size_of(shared_memory)
    return Room(
        shared_memory_bytes=size,
        free_shared_memory_bytes=free,
        open_files=None if open_files == resource.RLIM_INFINITY else open_files,
        memory_limit_bytes=limits_of().memory_limit_bytes,
    )


def shortage(need: Need, room: Room) -> Cause | None:
    """Return what a cell lacks on a machine, so that it could only fail; None for nothing."""
    free = room.free_shared_memory_bytes
    if free is not None and need.shared_memory_bytes > free:
        return Cause(
            kind="little-shared-memory",
            message=f"{SHARED_MEMORY} has {megabytes(free)} free of "
            f"{megabytes(room.shared_memory_bytes or free)}, and the batches that workers hold "
            f"ready there take {megabytes(need.shared_memory_bytes)}",
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
            message=f"the control group may use {megabytes(limit)} of memory, and the batches "
            f"that workers hold ready take {megabytes(need.memory_bytes)}",
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


def megabytes(size: int) -> str:
    """Return a size in MB, such as ``64 MB``."""
    return f"{size / 1e6:,.0f} MB"


def _size_of(directory: Path) -> tuple[int | None, int | None]:
    """Return the size and the free bytes of a file system; None for both where it is not there."""
    if sys.platform != "linux" or not directory.is_dir():
        return None, None
    status = os.statvfs(directory)
    return status.f_frsize * status.f_blocks, status.f_frsize * status.f_bavail
