"""CPU, memory and container limits of this process: affinity mask and control groups."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from skymark.model.machine import Limits

NO_LIMIT_BYTES = 1 << 60
"""Control groups of version 1 write a number near 2**63 for no limit."""


def limits_of(
    proc: Path = Path("/proc/self"), cgroups: Path = Path("/sys/fs/cgroup"), root: Path = Path("/")
) -> Limits:
    """Return the limits that hold for this process, of control groups version 1 and 2.

    A limit of any enclosing group holds, so the strictest on the way to the root counts.
    Source: https://docs.kernel.org/admin-guide/cgroup-v2.html and cgroup-v1.
    """
    groups = _groups_of(proc / "cgroup", cgroups)
    quotas = [quota for group in groups if (quota := _quota_cores(group)) is not None]
    memory = [limit for group in groups if (limit := _memory_limit(group)) is not None]
    throttled = [share for group in groups if (share := _throttled_share(group)) is not None]
    return Limits(
        usable_cores=_usable_cores(),
        cpu_quota_cores=min(quotas, default=None),
        cpu_throttled_share=max(throttled, default=None),
        memory_limit_bytes=min(memory, default=None),
        container=container_of(root),
    )


def _usable_cores() -> int | None:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _groups_of(file: Path, cgroups: Path) -> list[Path]:
    """Return the directories of the process's groups and of all that enclose them."""
    found: list[Path] = []
    for line in (_text(file) or "").splitlines():
        _, controllers, path = line.split(":", 2)
        hierarchy = cgroups if not controllers else cgroups / controllers.removeprefix("name=")
        group = hierarchy / path.lstrip("/")
        while group != hierarchy.parent:
            if group.is_dir():
                found.append(group)
            group = group.parent
    return list(dict.fromkeys(found))


def _quota_cores(group: Path) -> float | None:
    if (line := _text(group / "cpu.max")) is not None:
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
    """Return how many processes of this one's control groups were killed for memory so far."""
    counts = []
    for group in _groups_of(proc / "cgroup", cgroups):
        for name in ("memory.events", "memory.oom_control"):
            lines = (line.split() for line in (_text(group / name) or "").splitlines())
            counts += [int(words[1]) for words in lines if words[:1] == ["oom_kill"]]
    return sum(counts)


def _throttled_share(group: Path) -> float | None:
    lines = (line.split() for line in (_text(group / "cpu.stat") or "").splitlines())
    counts = {words[0]: int(words[1]) for words in lines if len(words) == 2}
    periods = counts.get("nr_periods", 0)
    return counts["nr_throttled"] / periods if periods and "nr_throttled" in counts else None


def container_of(root: Path = Path("/")) -> str | None:
    """Return the kind of container by the marks that it leaves; None outside of one."""
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    # systemd's interface for containers: https://systemd.io/CONTAINER_INTERFACE/
    return _text(root / "run/systemd/container") or None


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text is not None and text.lstrip("-").isdigit() else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
