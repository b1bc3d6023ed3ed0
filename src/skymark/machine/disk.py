"""Kind, file system and free space of the disk below a directory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from skymark.model.machine import DiskKind

NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "lustre", "ceph", "beegfs", "gpfs", "9p"})
MEMORY = frozenset({"tmpfs", "ramfs"})


def disk_of(
    directory: Path, sys_block: Path = Path("/sys/dev/block")
) -> tuple[DiskKind | None, str | None, int | None]:
    """Return the disk's kind, the file system's type and the free bytes below a directory.

    A directory that does not exist yet is where its nearest parent is.
    """
    place = directory.resolve()
    while not place.exists():
        place = place.parent
    filesystem = _filesystem(place)
    return _kind(place, filesystem, sys_block), filesystem, shutil.disk_usage(place).free


def _filesystem(place: Path) -> str | None:
    import psutil

    partitions = psutil.disk_partitions(all=True)
    mounts: dict[str, str] = {partition.mountpoint: partition.fstype for partition in partitions}
    for parent in (place, *place.parents):
        if mounts.get(os.fspath(parent)):
            return mounts[os.fspath(parent)]
    return None


def _kind(place: Path, filesystem: str | None, sys_block: Path) -> DiskKind | None:
    if filesystem in MEMORY:
        return "memory"
    if filesystem in NETWORK or (filesystem or "").startswith("fuse."):
        return "network"
    device = place.stat().st_dev
    block = (sys_block / f"{os.major(device)}:{os.minor(device)}").resolve()
    if not block.exists():
        return None
    return _kind_of_device(block.parent if (block / "partition").exists() else block)


def _kind_of_device(block: Path) -> DiskKind | None:
    """Return the kind of a device by its name, or by what the kernel says of its platters."""
    if block.name.startswith("nvme"):
        return "nvme"
    if block.name.startswith(("vd", "xvd")):
        return "virtual"
    rotational = block / "queue" / "rotational"
    if not rotational.exists():
        return None
    return "hdd" if rotational.read_text().strip() == "1" else "ssd"
