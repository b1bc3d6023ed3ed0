"""Whether a run is being written on this machine, told without touching its lock."""

from __future__ import annotations

from pathlib import Path

from skymark.run.sole_writer import LOCK

LOCKS = Path("/proc/locks")


def is_being_written(directory: Path, locks: Path = LOCKS) -> bool:
    """Whether a process of this machine holds the lock of a run's directory.

    The lock itself is not tried: that would keep out a run which begins at this moment.

    Args:
        directory: of the run.
        locks: the kernel's list (proc_locks(5)), which has an inode in its sixth field.
    """
    try:
        inode = (directory / LOCK).stat().st_ino
        lines = locks.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    # A line of a process that waits for a lock has an arrow; who waits does not write.
    fields = (line.split() for line in lines if "->" not in line)
    return any(len(one) > 5 and one[5].rpartition(":")[2] == str(inode) for one in fields)
