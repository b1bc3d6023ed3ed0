"""Fitness of a machine for measuring: warnings, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterator

from skymark.machine.cgroup import (
    MORE_MEMORY,
    MORE_SHARED_MEMORY,
    SHARED_MEMORY,
    Room,
)
from skymark.model.machine import MachineState
from skymark.model.record import StabilityWarning
from skymark.model.sizes import size_text

BUSY_SHARE = 0.10
"""Share of all cores' time from which other programs disturb a measurement."""

THROTTLED_SHARE = 0.01
LEAST_FREE_DISK_BYTES = 5 << 30
LEAST_FREE_MEMORY_SHARE = 0.15
NOTABLE_SWAP_BYTES = 256 << 20

ENOUGH_SHARED_MEMORY_BYTES = 1 << 30
"""Shared memory for eight workers with four batches each, of 64 images of 224 × 224: 0.3 GB."""

ENOUGH_OPEN_FILES = 1024
"""Default limit of most systems."""

ENOUGH_MEMORY_BYTES = 2 << 30
"""A process with PyTorch or TensorFlow takes 0.3 to 0.5 GB, and each of its workers as much."""


def fitness_warnings(machine: MachineState) -> tuple[StabilityWarning, ...]:
    """Return the reasons why measurements on this machine are unsafe, the worst first."""
    return (
        *_simulation_warnings(machine),
        *_processor_warnings(machine),
        *_limit_warnings(machine),
        *_space_warnings(machine),
    )


def room_warnings(room: Room) -> tuple[StabilityWarning, ...]:
    """Return the reasons why worker processes may lack resources."""
    warnings = []
    size = room.shared_memory_bytes
    if size is not None and size < ENOUGH_SHARED_MEMORY_BYTES:
        warnings.append(
            StabilityWarning(
                kind="little-shared-memory",
                message=f"{SHARED_MEMORY} has {size_text(size)}, and worker processes pass batches "
                "through it",
                action=MORE_SHARED_MEMORY,
            )
        )
    if room.open_files is not None and room.open_files < ENOUGH_OPEN_FILES:
        warnings.append(
            StabilityWarning(
                kind="few-open-files",
                message=f"a process may open {room.open_files} files only",
                action="raise the limit with: ulimit -n 4096",
            )
        )
    limit = room.memory_limit_bytes
    if limit is not None and limit < ENOUGH_MEMORY_BYTES:
        warnings.append(
            StabilityWarning(
                kind="little-memory",
                message=f"the control group may use {size_text(limit)} of memory, and a library "
                "with worker processes takes more",
                action=MORE_MEMORY,
            )
        )
    return tuple(warnings)


def _simulation_warnings(machine: MachineState) -> Iterator[StabilityWarning]:
    if machine.limits.simulated:
        yield StabilityWarning(
            kind="rehearsal",
            message="the machine was simulated: its figures say nothing of a rented one",
            action="`skymark launch` measures on a real one",
        )


def _processor_warnings(machine: MachineState) -> Iterator[StabilityWarning]:
    load, cores = machine.load, machine.limits.usable_cores or 1
    if load.cpu_busy_share is not None and load.cpu_busy_share > BUSY_SHARE:
        yield StabilityWarning(
            kind="busy-machine",
            message=f"other programs use {load.cpu_busy_share:.0%} of the processor",
            action="stop them, or wait until they are done (`top` shows which)",
        )
    elif load.load_average_1m is not None and load.load_average_1m > max(0.5, cores / 2):
        yield StabilityWarning(
            kind="load-average",
            message=f"the load of the last minute is {load.load_average_1m:.1f} on {cores} cores",
            action="wait a minute if a program has just ended, else stop what runs (`top`)",
        )
    if load.cpu_governor is not None and "powersave" in load.cpu_governor:
        yield StabilityWarning(
            kind="powersave-governor",
            message=f"the frequency governor is {load.cpu_governor}: the clock lags the load",
            action="sudo cpupower frequency-set --governor performance",
        )
    if load.on_battery:
        yield StabilityWarning(
            kind="on-battery",
            message="the machine runs on its battery, which slows the processor",
            action="plug it in",
        )


def _limit_warnings(machine: MachineState) -> Iterator[StabilityWarning]:
    limits = machine.limits
    quota, cores = limits.cpu_quota_cores, limits.usable_cores
    if limits.cpu_throttled_share is not None and limits.cpu_throttled_share > THROTTLED_SHARE:
        yield StabilityWarning(
            kind="cpu-throttled",
            message=(
                f"the control group was stopped in {limits.cpu_throttled_share:.0%} of its "
                "periods for using its whole CPU quota"
            ),
            action="give the container more CPU, or pin it to whole cores (--cpuset-cpus)",
        )
    if quota is not None and cores is not None and quota < cores:
        yield StabilityWarning(
            kind="cpu-quota",
            message=(
                f"{cores} cores are visible but only {quota:g} may be used: libraries that count "
                "cores start too many threads"
            ),
            action="pin the container to whole cores (--cpuset-cpus) in place of a quota",
        )


def _space_warnings(machine: MachineState) -> Iterator[StabilityWarning]:
    load, limits = machine.load, machine.limits
    if load.swap_used_bytes is not None and load.swap_used_bytes > NOTABLE_SWAP_BYTES:
        yield StabilityWarning(
            kind="swap-in-use",
            message=f"{size_text(load.swap_used_bytes)} of memory lie in swap",
            action="free memory, then `sudo swapoff -a && sudo swapon -a`",
        )
    allowed = [
        size
        for size in (machine.hardware.memory_bytes, limits.memory_limit_bytes)
        if size is not None
    ]
    free = load.memory_available_bytes
    if free is not None and allowed and free < LEAST_FREE_MEMORY_SHARE * min(allowed):
        yield StabilityWarning(
            kind="low-memory",
            message=f"only {size_text(free)} of memory are free: the page cache may not last",
            action="stop other programs, or choose smaller variants",
        )
    if load.disk_free_bytes is not None and load.disk_free_bytes < LEAST_FREE_DISK_BYTES:
        yield StabilityWarning(
            kind="low-disk",
            message=f"only {size_text(load.disk_free_bytes)} of disk are free",
            action="`skymark env clean` removes environments; datasets can be removed by hand",
        )
    if machine.filesystem in {"nfs", "nfs4", "cifs", "9p"}:
        yield StabilityWarning(
            kind="network-disk",
            message=f"the data lies on a network file system ({machine.filesystem})",
            action="set SKYMARK_CACHE to a directory on a local disk",
        )
