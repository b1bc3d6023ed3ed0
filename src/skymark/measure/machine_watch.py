"""Watch of the machine during a round: the processors that others took, waits, stops, the clock.

Sources: proc_stat(5) for the processors' times, of which the kernel measures the idle one exactly;
https://docs.kernel.org/accounting/psi.html for ``/proc/pressure``.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from operator import itemgetter

import psutil

from skymark.machine.cgroup import cpu_groups, limits_of, throttled_s
from skymark.machine.fitness import frequency_mhz, pressure_of
from skymark.machine.processes import Table, marker_of
from skymark.model.record import MachineUse

LEAST_COUNTED = 0.5
"""Least part of the time that the kernel has to count; sandboxes such as gVisor count none."""

LEAST_CORE_S = 0.5
"""Least core seconds between two ends. With steps of 10 ms, the share of a shorter time is known to
no better than 2 %."""

NOTABLE_SHARE = 0.005
"""Least share of the cores of a detached process that is looked for."""

NAMED_SHARE = 0.5
"""Least part of others' time that a program needs to be named."""


@dataclass(frozen=True)
class CoreTimes:
    """Total times of the cores that this process may use, in core seconds."""

    idle: float
    """Idle time; a wait for a disk is idle."""
    steal: float
    interrupts: float
    """Time in interrupts, which a loader's own reads cause, too."""
    counted: float
    """All time."""


@cache
def cores_of_machine() -> tuple[float, float]:
    """Return the visible cores of this process, and the cores that its quota allows; read once."""
    limits = limits_of()
    usable = float(limits.usable_cores or os.cpu_count() or 1)
    return usable, min(usable, limits.cpu_quota_cores or usable)


groups_here = cache(cpu_groups)
"""Control groups of this process; read once."""


def core_times() -> CoreTimes:
    """Return the times of the cores that this process may use, in steps of 10 ms."""
    usable = os.sched_getaffinity(0)
    if len(usable) == os.cpu_count():
        each = [psutil.cpu_times()]
    else:
        every = psutil.cpu_times(percpu=True)
        each = [every[core] for core in usable if core < len(every)]
    idle = sum(core.idle + core.iowait for core in each)
    steal = sum(core.steal for core in each)
    interrupts = sum(core.irq + core.softirq for core in each)
    working = sum(core.user + core.nice + core.system for core in each)
    return CoreTimes(idle, steal, interrupts, idle + steal + interrupts + working)


def waited_s() -> dict[str, float]:
    """Return the seconds in which some program waited, by resource; empty if unknown."""
    return {resource: total_us / 1e6 for resource, total_us in pressure_of("total").items()}


@dataclass(frozen=True)
class Moment:
    """The clocks of the machine at one moment."""

    own_s: float
    """CPU seconds of the worker's process tree."""
    table: Table
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    wall_s: float = field(default_factory=time.monotonic)
    cores: CoreTimes = field(default_factory=core_times)
    engine_s: float = field(default_factory=time.process_time)
    waited_s: dict[str, float] = field(default_factory=waited_s)
    throttled_s: float | None = field(default_factory=lambda: throttled_s(groups_here()))


class MachineWatch:
    """Notes the machine's use by others between `begin` and `end`."""

    def __init__(
        self, marker: str | None = None, moment: Callable[[float, Table], Moment] = Moment
    ) -> None:
        """Get ready to watch.

        Args:
            marker: value of ``SKYMARK_WORKER`` in the worker's detached processes, which are not
                others; None to look for none.
            moment: reads the clocks.
        """
        self._usable, self._cores = cores_of_machine()
        self._marker = marker
        self._moment = moment
        self._begin: Moment | None = None

    def begin(self, own_s: float, table: Table) -> None:
        """Start to watch.

        Args:
            own_s: CPU seconds of the worker's process tree and of skymark's servers.
            table: the processes now.
        """
        self._begin = self._moment(own_s, table)

    def end(self, own_s: float, table: Table, own: Collection[int]) -> MachineUse | None:
        """Return the machine's use since `begin`; None without a begin or any time since.

        Args:
            own_s: as in `begin`.
            table: the processes now.
            own: ids of the processes of the worker's tree and of skymark.
        """
        begin, end = self._begin, self._moment(own_s, table)
        if begin is None or end.wall_s <= begin.wall_s:
            return None
        wall_s = end.wall_s - begin.wall_s
        capacity_s = self._usable * wall_s
        others_s, program = self._others(begin, end, capacity_s, own)
        is_counted = (
            capacity_s >= LEAST_CORE_S
            and end.cores.counted - begin.cores.counted >= LEAST_COUNTED * capacity_s
        )
        stolen_s = max(0.0, end.cores.steal - begin.cores.steal)
        # A quota leaves the rest of the processors to others.
        withheld = self._usable - self._cores
        return MachineUse(
            began_at=begin.at,
            wall_s=wall_s,
            cores=self._cores,
            others_cores=max(0.0, others_s / wall_s - withheld) if is_counted else None,
            stolen_cores=stolen_s / wall_s if is_counted else None,
            program=program if is_counted else None,
            waited_shares={
                name: max(0.0, now - begin.waited_s[name]) / wall_s
                for name, now in end.waited_s.items()
                if name in begin.waited_s
            },
            throttled_share=None
            if begin.throttled_s is None or end.throttled_s is None
            else max(0.0, end.throttled_s - begin.throttled_s) / wall_s,
            frequency_mhz=frequency_mhz(),
        )

    def _others(
        self, begin: Moment, end: Moment, capacity_s: float, own: Collection[int]
    ) -> tuple[float, str | None]:
        """Return the CPU seconds of other programs, and the program with most of them."""
        free_s = sum(
            getattr(end.cores, name) - getattr(begin.cores, name)
            for name in ("idle", "steal", "interrupts")
        )
        own_s = end.own_s - begin.own_s + end.engine_s - begin.engine_s
        others_s = max(0.0, capacity_s - free_s - own_s)
        used_s: dict[str, float] = defaultdict(float)
        for process in end.table.values():
            before = begin.table.get(process.pid)
            is_same = before is not None and before.identity == process.identity
            spent_s = process.cpu_s - (before.cpu_s if before is not None and is_same else 0.0)
            if spent_s <= 0 or process.pid in own:
                continue
            is_notable = spent_s >= NOTABLE_SHARE * capacity_s
            if is_notable and self._marker and marker_of(process.pid) == self._marker:
                others_s = max(0.0, others_s - spent_s)
            else:
                used_s[process.name] += spent_s
        program, most_s = max(used_s.items(), key=itemgetter(1), default=(None, 0.0))
        return others_s, program if most_s and most_s >= NAMED_SHARE * others_s else None
