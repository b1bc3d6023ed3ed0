"""The copies of batches to an accelerator within the waits, beside plain copies of like size."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Transfer:
    """Bytes and nanoseconds of copies; those of several passes or processes add up."""

    moved_bytes: int = 0
    """Bytes of batches that were copied to the device."""
    moving_ns: int = 0
    """Time in which a caller waited for that."""
    copied_bytes: int = 0
    """Bytes of a plain buffer as large as a batch."""
    copying_ns: int = 0
    """Time of a copy of it to the device."""

    def plus(self, other: Transfer) -> Transfer:
        """Return both together."""
        return Transfer(
            self.moved_bytes + other.moved_bytes,
            self.moving_ns + other.moving_ns,
            self.copied_bytes + other.copied_bytes,
            self.copying_ns + other.copying_ns,
        )

    @property
    def moved_bytes_per_s(self) -> float | None:
        """Rate at which batches were copied; None where nothing was."""
        return _per_s(self.moved_bytes, self.moving_ns)

    @property
    def copied_bytes_per_s(self) -> float | None:
        """Rate of the plain copies; None where there was none."""
        return _per_s(self.copied_bytes, self.copying_ns)


def _per_s(size: int, ns: int) -> float | None:
    return size / ns * 1e9 if size and ns else None
