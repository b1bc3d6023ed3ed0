"""Energy that the CPU's packages took since a moment; a GPU's is in the round's resources."""

from __future__ import annotations

from pathlib import Path

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


def _packages_j() -> float | None:
    """Return the sum over the CPU's packages; None where they cannot be read."""
    counters = sorted(PACKAGES.glob("intel-rapl:[0-9]/energy_uj"))
    try:
        return sum(int(one.read_text()) for one in counters) / 1e6 if counters else None
    except (OSError, ValueError):
        return None
