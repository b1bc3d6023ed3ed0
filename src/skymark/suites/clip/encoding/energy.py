"""Energy of a round: of the GPUs, as its resources have it, or of the CPU's packages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from skymark.model.record import Resources

PACKAGES = Path("/sys/class/powercap")
"""Linux's powercap framework: energy of Intel's and AMD's packages in µJ, for root alone."""


class EnergyMeter:
    """Counters of energy, where the machine has them; `taken_j` is None where it has not."""

    def __init__(self) -> None:
        self._begin_j = _packages_j()

    def taken_j(self) -> float | None:
        """Return the energy since the meter was made, in J."""
        end_j = _packages_j()
        if end_j is None or self._begin_j is None or end_j < self._begin_j:
            # A counter of a package begins at 0 again after some hours.
            return None
        return end_j - self._begin_j


def energy_metrics(
    images: int, device: Any, packages_j: float | None, resources: Resources
) -> dict[str, float]:
    """Return the metrics of energy; without a counter none.

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
    """Return the sum over the CPU's packages; None where they cannot be read."""
    counters = sorted(PACKAGES.glob("intel-rapl:[0-9]/energy_uj"))
    try:
        return sum(int(one.read_text()) for one in counters) / 1e6 if counters else None
    except (OSError, ValueError):
        return None
