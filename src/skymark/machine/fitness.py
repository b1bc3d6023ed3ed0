"""Fitness of a machine for measuring: warnings, each with its remedy, and the machine's noise.

psutil reads the processors' times; sources of the rest: https://docs.kernel.org/accounting/psi.html
for ``/proc/pressure``, https://docs.kernel.org/admin-guide/pm/cpufreq.html for
``scaling_cur_freq``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import fmean, median, stdev
from typing import NamedTuple

from skymark.machine.cgroup import (
    MORE_MEMORY,
    MORE_SHARED_MEMORY,
    SHARED_MEMORY,
    Room,
    text_of,
)
from skymark.model.base import Count, Frozen, NonNegative
from skymark.model.machine import MachineState
from skymark.model.record import StabilityWarning
from skymark.model.sizes import percent, size_text

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
            message=f"other programs use {percent(load.cpu_busy_share)} of the processor",
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
                f"the control group was stopped in {percent(limits.cpu_throttled_share)} of its "
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


OBSERVED_S = 10.0
"""Time to watch the machine."""
ROUND_S = 0.5
"""Length of a round of repetitions, similar to a benchmark's. Slower changes show between
rounds."""
PRESSURE = Path("/proc/pressure")
STEPS = 100_000
"""Size of the kernel's work: some milliseconds on a current processor."""
MOST_STEAL = 0.01
MOST_PRESSURE = 0.10
MOST_SPREAD = 0.05
"""With more noise than this, measuring takes many rounds."""


class CpuTimes(NamedTuple):
    """Time of all processors since the machine began, in seconds."""

    busy: float
    steal: float
    total: float


class Noise(Frozen):
    """Noise of a machine, watched for some seconds. Null is unknown."""

    rounds_s: tuple[NonNegative, ...]
    """Mean time of a repetition of the kernel in each round."""
    repetitions: Count
    fastest_s: NonNegative
    median_s: NonNegative
    slowest_s: NonNegative
    """Fastest, median and slowest repetition of the kernel."""
    steal_share: NonNegative | None
    """Share of all processors' time that the host gave to other machines."""
    others_share: NonNegative | None
    """Share of all processors' time that other programs used."""
    frequency_mhz: tuple[NonNegative, NonNegative] | None
    """Lowest and highest mean frequency of the processors."""
    load_average_1m: NonNegative
    pressure: dict[str, NonNegative]
    """Share of the preceding ten seconds in which a program waited, by resource."""

    @property
    def spread(self) -> float:
        """The standard deviation of rounds over their mean."""
        mean = fmean(self.rounds_s)
        return stdev(self.rounds_s) / mean if mean and len(self.rounds_s) > 1 else 0.0


def kernel() -> int:
    """Fixed work on the processor alone, without memory traffic or system calls."""
    state = 1
    for _ in range(STEPS):
        state = (state * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
    return state


def observe(
    seconds: float = OBSERVED_S,
    work: Callable[[], object] = kernel,
    clock: Callable[[], float] = time.perf_counter,
    cpu_clock: Callable[[], float] = time.process_time,
    times: Callable[[], CpuTimes] | None = None,
    root: Path = Path("/"),
) -> Noise:
    """Watch the machine while one core repeats a fixed piece of work.

    Args:
        seconds: how long.
        work: the kernel.
        clock: seconds.
        cpu_clock: CPU seconds of this process.
        times: reads the times of all processors; None to ask the kernel.
        root: directory of ``proc`` and ``sys``.
    """
    pressure, load = pressure_of("avg10", root / "proc" / "pressure"), os.getloadavg()[0]
    times = times or cpu_times
    before, own_before = times(), cpu_clock()
    frequencies: list[float] = []
    rounds: list[float] = []
    repetitions: list[float] = []
    began = clock()
    while clock() - began < seconds or len(rounds) < 2:
        taken = list(_repeated(work, clock))
        rounds.append(fmean(taken))
        repetitions += taken
        frequencies += [now] if (now := frequency_mhz(root)) is not None else []
    wall_s, own_s = clock() - began, cpu_clock() - own_before
    after = times()
    return Noise(
        rounds_s=tuple(rounds),
        repetitions=len(repetitions),
        fastest_s=min(repetitions),
        median_s=median(repetitions),
        slowest_s=max(repetitions),
        steal_share=steal_share(before, after),
        others_share=others_share(before, after, own_s / wall_s if wall_s else 0.0),
        frequency_mhz=(min(frequencies), max(frequencies)) if frequencies else None,
        load_average_1m=load,
        pressure={resource: per_cent / 100 for resource, per_cent in pressure.items()},
    )


def _repeated(work: Callable[[], object], clock: Callable[[], float]) -> Iterator[float]:
    """Yield the time of each repetition in a round."""
    ends = clock() + ROUND_S
    while True:
        began = clock()
        work()
        ended = clock()
        yield ended - began
        if ended >= ends:
            return


def cpu_times() -> CpuTimes:
    """Return the times of all processors.

    User and nice time already include the time of guests.
    """
    import psutil

    now = psutil.cpu_times()
    busy = now.user + now.nice + now.system + now.irq + now.softirq
    return CpuTimes(busy, now.steal, busy + now.idle + now.iowait + now.steal)


def steal_share(before: CpuTimes, after: CpuTimes) -> float | None:
    """Return the stolen share of all processors' time; None if no time passed."""
    if after.total <= before.total:
        return None
    return max(0, after.steal - before.steal) / (after.total - before.total)


def others_share(before: CpuTimes, after: CpuTimes, own_cores: float) -> float | None:
    """Return other programs' share of all processors' time; None if no time passed.

    Args:
        before: at the beginning.
        after: at the end.
        own_cores: CPU time of this process over the time in between.
    """
    if after.total <= before.total:
        return None
    busy = (after.busy - before.busy) / (after.total - before.total)
    return max(0.0, busy - own_cores / (os.cpu_count() or 1))


def pressure_of(figure: str, directory: Path = PRESSURE) -> dict[str, float]:
    """Return how long some program waited, by resource; empty if the kernel does not report it.

    Args:
        figure: ``avg10`` for per cent of the last ten seconds, ``total`` for µs.
        directory: the kernel's, with a file per resource.
    """
    figures = {}
    for resource in ("cpu", "io", "memory"):
        for line in (text_of(directory / resource) or "").splitlines():
            kind, *pairs = line.split()
            values = dict(pair.partition("=")[::2] for pair in pairs)
            if kind == "some" and figure in values:
                figures[resource] = float(values[figure])
    return figures


def noise_warnings(noise: Noise) -> tuple[StabilityWarning, ...]:
    """Return the reasons why measurements take many rounds on this machine."""
    warnings: list[StabilityWarning] = []
    if noise.steal_share is not None and noise.steal_share > MOST_STEAL:
        warnings.append(
            StabilityWarning(
                kind="cpu-steal",
                message=(
                    f"the host gave {percent(noise.steal_share, 1)} of the processors' time to "
                    "others"
                ),
                action="rent a machine with processors of its own, or measure at another time",
            )
        )
    waited = noise.pressure.get("cpu", 0.0)
    if waited > MOST_PRESSURE:
        warnings.append(
            StabilityWarning(
                kind="cpu-pressure",
                message=(
                    f"in {percent(waited)} of the last ten seconds a program waited for a processor"
                ),
                action="stop what runs beside, or wait until it is done (`top` shows which)",
            )
        )
    if noise.spread > MOST_SPREAD:
        warnings.append(
            StabilityWarning(
                kind="noisy-processor",
                message=f"the same work varies by {percent(noise.spread, 1)} from round to round",
                action="stop what runs beside, fix the frequency (`sudo cpupower frequency-set "
                "--governor performance`), or take more rounds",
            )
        )
    return tuple(warnings)


def frequency_mhz(root: Path = Path("/")) -> float | None:
    """Return the mean frequency of the first processors; None if it is unreadable."""
    files = islice((root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq"), 8)
    frequencies_mhz = [
        int(text) / 1000 for file in files if (text := text_of(file) or "").strip().isdigit()
    ]
    return fmean(frequencies_mhz) if frequencies_mhz else None
