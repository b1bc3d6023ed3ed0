"""Energy that an accelerator, or else the CPU's packages, took since a moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PACKAGES = Path("/sys/class/powercap")
"""Linux's powercap framework: energy of Intel's and AMD's packages in µJ, for root alone."""


class EnergyMeter:
    """Counters of energy, where the machine has them; `taken_j` is None where it has not."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._begin = self._read_j()

    def taken_j(self) -> float | None:
        """Return the energy since the meter was made, in J."""
        end = self._read_j()
        if end is None or self._begin is None or end < self._begin:
            # A counter of a package begins at 0 again after some hours.
            return None
        return end - self._begin

    def _read_j(self) -> float | None:
        return _device_j(self._device) if self._device.type == "cuda" else _packages_j()


def _device_j(device: Any) -> float | None:
    """Return NVML's counter of a GPU; None where NVML or the GPU has none."""
    import torch

    try:
        import pynvml
    except ModuleNotFoundError:
        return None
    try:
        pynvml.nvmlInit()
        uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        return float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1e3
    except pynvml.NVMLError:
        return None


def _packages_j() -> float | None:
    """Return the sum over the CPU's packages; None where they cannot be read."""
    counters = sorted(PACKAGES.glob("intel-rapl:[0-9]/energy_uj"))
    try:
        return sum(int(one.read_text()) for one in counters) / 1e6 if counters else None
    except (OSError, ValueError):
        return None
