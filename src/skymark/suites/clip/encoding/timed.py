"""Time of work on a device, and the energy of a round."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from skymark.model.record import Resources


def timed(device: Any) -> HostSpan | DeviceSpan:
    """Return a span for work on a device; reading its `ns` waits for the end of the work."""
    return DeviceSpan(device) if device.type == "cuda" else HostSpan()


class HostSpan:
    """Time by the host's clock."""

    def __init__(self) -> None:
        self._begin = 0
        self.ns = 0

    def __enter__(self) -> None:
        """Begin."""
        self._begin = time.perf_counter_ns()

    def __exit__(self, *_: object) -> None:
        """End."""
        self.ns = time.perf_counter_ns() - self._begin


class DeviceSpan:
    """Time between two events in a GPU's stream."""

    def __init__(self, device: Any) -> None:
        import torch

        self._device = device
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def __enter__(self) -> None:
        """Begin when the stream reaches this point."""
        import torch

        self._begin.record(torch.cuda.current_stream(self._device))

    def __exit__(self, *_: object) -> None:
        """End when the stream reaches this point."""
        import torch

        self._end.record(torch.cuda.current_stream(self._device))

    @property
    def ns(self) -> int:
        """Wait for the end, and return the time between the events."""
        self._end.synchronize()
        return int(self._begin.elapsed_time(self._end) * 1e6)


PACKAGES = Path("/sys/class/powercap")
"""Linux's powercap framework: energy of Intel's and AMD's packages in µJ, for root alone."""


class EnergyMeter:
    """Energy counters of the machine's CPU packages."""

    def __init__(self) -> None:
        self._begin_j = _packages_j()

    def taken_j(self) -> float | None:
        """Return the energy since the meter was made, in J; None without counters."""
        end_j = _packages_j()
        if end_j is None or self._begin_j is None or end_j < self._begin_j:
            # A counter of a package restarts at 0 after some hours.
            return None
        return end_j - self._begin_j


def energy_metrics(
    images: int, device: Any, packages_j: float | None, resources: Resources
) -> dict[str, float]:
    """Return the metrics of energy; empty without a counter.

    Args:
        images: encoded in the timed region.
        device: torch's, of the encoder.
        packages_j: energy of the CPU's packages, in J.
        resources: of the timed region.
    """
    energy_j = packages_j
    if device.type == "cuda":
        energy_j = None if resources.gpu is None else resources.gpu.board_energy_j
    if energy_j is None:
        return {}
    each = {"energy_j_per_1000_images": 1000 * energy_j / images} if images else {}
    return {"energy_j": energy_j, **each}


def _packages_j() -> float | None:
    """Return the sum over the CPU's packages; None if they cannot be read."""
    counters = sorted(PACKAGES.glob("intel-rapl:[0-9]/energy_uj"))
    try:
        return sum(int(one.read_text()) for one in counters) / 1e6 if counters else None
    except (OSError, ValueError):
        return None
