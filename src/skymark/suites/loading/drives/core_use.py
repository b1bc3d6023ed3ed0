"""Cores that a loader keeps busy, and the machine's idle cores."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

import psutil


def idle_core_s() -> float:
    """Return the total idle time of this process's cores, in core seconds.

    Waiting for a disk counts as idle. The kernel counts in ticks of 10 ms.
    """
    every = psutil.cpu_times(percpu=True)
    used_here = (every[core] for core in os.sched_getaffinity(0))
    return sum(float(core.idle + getattr(core, "iowait", 0.0)) for core in used_here)


@dataclass
class CoreClocks:
    """The clocks at one moment, in seconds."""

    wall_s: float = field(default_factory=time.perf_counter)
    consumer_s: float = field(default_factory=time.process_time)
    """CPU time of this process, which takes the batches, with all its threads."""
    idle_s: float = field(default_factory=idle_core_s)


class CoreUse:
    """The use of cores from the object's creation to `end`."""

    def __init__(self) -> None:
        self._begin = self._end = CoreClocks()

    def end(self) -> None:
        """Stop."""
        self._end = CoreClocks()

    def figures(self, cpu_s: float | None) -> dict[str, float]:
        """Return metrics; empty without a CPU time.

        Args:
            cpu_s: CPU seconds of the process tree meanwhile.
        """
        begin, end = self._begin, self._end
        wall_s = end.wall_s - begin.wall_s
        if cpu_s is None or wall_s <= 0:
            return {}
        return {
            "cores_used": cpu_s / wall_s,
            "cores_idle": max(0.0, end.idle_s - begin.idle_s) / wall_s,
            "cores_of_consumer": (end.consumer_s - begin.consumer_s) / wall_s,
        }
