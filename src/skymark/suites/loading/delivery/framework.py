"""Frameworks of accelerators: the copy of a batch's arrays to a device, and the wait for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from skymark.model.machine import Platform

FrameworkName = Literal["jax", "tensorflow", "torch"]

REACHED: Mapping[FrameworkName, frozenset[Platform]] = {
    "jax": frozenset({"cpu", "gpu", "tpu"}),
    "tensorflow": frozenset({"cpu", "gpu"}),
    "torch": frozenset({"cpu", "gpu"}),
}
"""The platforms whose devices each framework computes on, as its wheels come."""


@dataclass(frozen=True)
class Placed:
    """Arrays on a device."""

    fields: dict[str, Any]
    copy_ns: int
    """Time of the copies to the device. Copies to page-locked memory before them are not in it."""


class Framework(ABC):
    """One device of a framework, made at the first batch, because it starts the framework.

    On the platform ``cpu`` the device is the framework's own CPU device. Arrays of the host are
    still copied, so that the CPU does the same work as an accelerator.
    """

    name: ClassVar[FrameworkName]

    @abstractmethod
    def __init__(self, platform: Platform, number: int) -> None:
        """Use a device of a platform; numbers beyond the last device wrap around."""

    @abstractmethod
    def bytes_to_move(self, value: Any) -> int:
        """Return the bytes of an array, 0 if it is on the device already."""

    @abstractmethod
    def place(self, batch: Mapping[str, Any]) -> Placed:
        """Copy arrays to the device and wait for the copies; arrays of the device stay.

        Any thread may call it. When it returns, the arrays of the host may be overwritten.
        """

    def has(self, value: Any) -> bool:
        """Whether an array is the framework's own and lies on the device; for training steps."""
        del value
        return False

    def receive(self, fields: Mapping[str, Any]) -> None:
        """Prepare the calling thread to use arrays that `place` has returned in any thread."""
        del fields

    def buffer(self, size: int) -> Any:
        """Return a host buffer with a number of bytes, of the kind with the fastest copies."""
        import numpy as np

        return np.ones(size, np.uint8)
