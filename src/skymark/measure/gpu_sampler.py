"""Sampler of GPUs while a round is measured: utilisation, clock, power, memory, throttling, energy.

The engine's process asks the driver. A costly answer makes the pauses longer.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean

from skymark.machine.cgroup import container_of
from skymark.machine.nvidia import (
    SLOWED_DOWN,
    GpuLostError,
    Unit,
    answered,
    clock_reasons,
    memory_of,
    processes_on,
    told,
    visible_units,
    watts,
)
from skymark.machine.processes import process_table, tree_of
from skymark.model.machine import GpuProcess, GpuUse

INTERVAL_S = 0.1
DUTY = 0.05
"""Largest share of one core that sampling may take."""
STOP_S = 1.0
"""Longest wait for the thread's end."""
PROCESSES_EVERY = 10
"""Samples between two queries of the processes on a GPU."""


class GpuSampler:
    """Watches the GPUs that CUDA programs see, and counts between `begin` and `end`.

    Its thread notices a GPU that is lost, in the timed region or not. Without NVML it does nothing.
    """

    def __init__(
        self, when_lost: Callable[[], None], *, on: bool = True, interval_s: float = INTERVAL_S
    ) -> None:
        """Begin to watch, until `close`; nothing is counted yet.

        Args:
            when_lost: called from any thread when a GPU stops answering. A program that computes on
                it may wait for ever.
            on: False for a round on the host: the sampler does nothing.
            interval_s: time between two samples.
        """
        self._when_lost = when_lost
        self._interval_s = interval_s
        self._units: list[Unit] = []
        self._ledgers: list[_Ledger] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if on and self._answers(lambda: answered(self._find)) and self._units:
            self._thread = threading.Thread(target=self._watch, name="skymark-gpus", daemon=True)
            self._thread.start()

    def begin(self) -> None:
        """Count from now on."""
        self._answers(lambda: answered(self._open))

    def end(self) -> tuple[GpuUse, ...] | None:
        """Return the use of each GPU since `begin`; None without a GPU, or after a loss.

        If the driver lists processes of this tree, GPUs without such a process are dropped.
        """
        uses: list[GpuUse] = []
        ours: list[GpuUse] = []

        def settle() -> None:
            with self._lock:
                ledgers, self._ledgers = self._ledgers, []
            for ledger in ledgers:
                uses.append(ledger.settled())
                ours.extend(uses[-1:] if ledger.is_ours else ())

        if not self._answers(lambda: answered(settle)):
            return None
        return tuple(ours or uses) or None

    def close(self) -> None:
        """Stop watching; safe to call again."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(STOP_S)  # it may wait for a driver that never answers
            self._thread = None

    def _find(self) -> None:
        self._units = visible_units()

    def _open(self) -> None:
        with self._lock:
            self._ledgers = [_Ledger(unit) for unit in self._units]

    def _watch(self) -> None:
        pause_s = self._interval_s
        while not self._stop.wait(pause_s):
            begin = time.thread_time()
            if not self._answers(self._sample):
                return
            pause_s = max(self._interval_s, (time.thread_time() - begin) / DUTY)

    def _sample(self) -> None:
        for unit in self._units:
            memory_of(unit.handle)
        with self._lock:
            for ledger in self._ledgers:
                ledger.sample()

    def _answers(self, ask: Callable[[], None]) -> bool:
        """Return whether all GPUs answer the driver; if not, call `when_lost`."""
        try:
            ask()
        except GpuLostError:
            self._units, self._ledgers = [], []
            self._when_lost()
            return False
        return True


class _Ledger:
    """Sums of the samples of one device."""

    def __init__(self, unit: Unit) -> None:
        """Take the first sample."""
        self._unit = unit
        self._samples = 0
        self._utilisation: list[float] = []
        self._clocks_mhz: list[float] = []
        self._powers_w: list[float] = []
        self._peak_bytes = 0
        self._reasons: Counter[str] = Counter()
        self._others: dict[int, GpuProcess] = {}
        self.is_ours = False
        """Whether a process of this tree was seen on it."""
        self.sample()
        self._begin_j = self._energy_j()

    def sample(self) -> None:
        """Sample the driver once."""
        import pynvml

        handle = self._unit.handle
        if (memory := memory_of(handle)) is not None:
            self._peak_bytes = max(self._peak_bytes, memory.used)
        if (rates := told(pynvml.nvmlDeviceGetUtilizationRates, handle)) is not None:
            self._utilisation.append(rates.gpu / 100)
        clock_mhz = told(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM)
        if clock_mhz is not None:
            self._clocks_mhz.append(clock_mhz)
        if (power_w := watts(told(pynvml.nvmlDeviceGetPowerUsage, handle))) is not None:
            self._powers_w.append(power_w)
        self._reasons.update(SLOWED_DOWN.intersection(clock_reasons(handle) or ()))
        if self._samples % PROCESSES_EVERY == 0:
            self._look_at_processes()
        self._samples += 1

    def settled(self) -> GpuUse:
        """Take the last sample, the energy first, and return the use."""
        end_j = self._energy_j()
        self.sample()
        self._look_at_processes()
        used_j = None
        if self._begin_j is not None and end_j is not None and end_j >= self._begin_j:
            used_j = end_j - self._begin_j
        return GpuUse(
            index=self._unit.index,
            name=self._unit.name,
            # The first sample describes the time before.
            kernel_share=_mean(self._utilisation[1:]),
            sm_clock_mhz=_mean(self._clocks_mhz),
            power_w=_mean(self._powers_w),
            peak_memory_bytes=self._peak_bytes or None,
            board_energy_j=used_j,
            throttled={
                reason: count / self._samples for reason, count in sorted(self._reasons.items())
            },
            other_processes=tuple(self._others.values()),
            is_slice=self._unit.is_slice,
            samples=self._samples,
        )

    def _energy_j(self) -> float | None:
        import pynvml

        found = told(pynvml.nvmlDeviceGetTotalEnergyConsumption, self._unit.handle)
        return None if found is None else found / 1e3

    def _look_at_processes(self) -> None:
        """Record the processes outside this process's tree.

        In a container the driver may report the host's process ids, so our own look foreign. There,
        foreign processes count only beside one of our own.
        """
        running = processes_on(self._unit.handle) or ()
        tree = tree_of(os.getpid(), process_table())
        self.is_ours |= any(process.pid in tree for process in running)
        if self.is_ours or container_of() is None:
            self._others |= {process.pid: process for process in running if process.pid not in tree}


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
