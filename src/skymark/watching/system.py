"""What Linux tells about a process and its machine, in one snapshot.

A file that this kernel or container does not have leaves its figures out.
"""

from __future__ import annotations

import os
from time import perf_counter_ns
from typing import Any

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
LOOPBACK = "lo"


def text_of(path: str) -> str:
    """Return a file's text, or nothing where it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def usable_cores() -> float:
    """Return the cores that this process may use: of its affinity and its cgroup's quota."""
    cores = float(len(os.sched_getaffinity(0)))
    quota = text_of("/sys/fs/cgroup/cpu.max").split()
    if len(quota) == 2 and quota[0] != "max":
        return min(cores, int(quota[0]) / int(quota[1]))
    quota = text_of("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").split()
    period = text_of("/sys/fs/cgroup/cpu/cpu.cfs_period_us").split()
    if quota and period and int(quota[0]) > 0:
        return min(cores, int(quota[0]) / int(period[0]))
    return cores


def run_delay_ns(thread: int) -> int | None:
    """Return the time that a thread of this process stood in line for a core, in ns."""
    fields = text_of(f"/proc/self/task/{thread}/schedstat").split()
    return int(fields[1]) if len(fields) > 1 else None


def thread_cpu_ns(thread: int) -> int | None:
    """Return the CPU time of a thread of this process, in ns."""
    fields = text_of(f"/proc/self/task/{thread}/schedstat").split()
    return int(fields[0]) if fields else None


def cpu_by_thread() -> dict[str, int]:
    """Return the CPU time of this process's threads in ns, by their names without numbers."""
    times: dict[str, int] = {}
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        return times
    for thread in threads:
        cpu = thread_cpu_ns(int(thread))
        name = text_of(f"/proc/self/task/{thread}/comm").strip().rstrip("0123456789")
        if cpu is not None:
            times[name] = times.get(name, 0) + cpu
    return times


def _process() -> dict[str, int]:
    times = os.times()
    facts = {"cpu_ns": int((times.user + times.system) * 1e9)}
    main = os.getpid()
    fields = text_of(f"/proc/self/task/{main}/schedstat").split()
    if len(fields) > 1:
        facts["main_cpu_ns"], facts["main_run_delay_ns"] = int(fields[0]), int(fields[1])
    for line in text_of("/proc/self/io").splitlines():
        name, _, value = line.partition(":")
        if name in {"rchar", "read_bytes"}:
            facts[name] = int(value)
    pages = text_of("/proc/self/statm").split()
    if len(pages) > 1:
        facts["memory_bytes"] = int(pages[1]) * os.sysconf("SC_PAGESIZE")
    return facts


def _machine() -> dict[str, int]:
    facts = {}
    ticks = [int(field) for field in text_of("/proc/stat").partition("\n")[0].split()[1:9]]
    if len(ticks) > 4:
        facts["all_ns"] = sum(ticks) * 10**9 // TICKS_PER_S
        facts["idle_ns"] = (ticks[3] + ticks[4]) * 10**9 // TICKS_PER_S
    pressure = text_of("/proc/pressure/io").partition("\n")[0].rpartition("total=")[2]
    if pressure.isdigit():
        facts["io_pressure_ns"] = int(pressure) * 1000
    for line in text_of("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            facts["available_bytes"] = int(line.split()[1]) * 1024
    for line in text_of("/proc/net/dev").splitlines()[2:]:
        name, _, counts = line.partition(":")
        kind = "loopback_bytes" if name.strip() == LOOPBACK else "network_bytes"
        facts[kind] = facts.get(kind, 0) + int(counts.split()[0])
    try:
        shared = os.statvfs("/dev/shm")  # noqa: S108  # its room is asked for, no file is made
    except OSError:
        return facts
    facts["shm_bytes"] = shared.f_blocks * shared.f_frsize
    facts["shm_free_bytes"] = shared.f_bavail * shared.f_frsize
    return facts


def snapshot() -> dict[str, Any]:
    """Return counters of this process and its machine, with the time."""
    return {"time_ns": perf_counter_ns(), **_process(), **_machine()}
