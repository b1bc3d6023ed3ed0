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
    """One device of a framework; made when the first batch is there, for it starts the framework.

    On the platform ``cpu`` the device is the framework's own CPU device, and arrays of the host
    are copied all the same, so that the same is done there as with an accelerator.
    """

    name: ClassVar[FrameworkName]

    @abstractmethod
    def __init__(self, platform: Platform, number: int) -> None:
        """Take a device of a platform; beyond the last, they are counted from the first again."""

    @abstractmethod
    def bytes_to_move(self, value: Any) -> int:
        """Return the bytes of an array, 0 where it lies on the device already."""

    @abstractmethod
    def place(self, batch: Mapping[str, Any]) -> Placed:
        """Copy arrays to the device and wait until they are there; those that are there stay.

        Any thread may call it. When it returns, the arrays of the host may be written into.
        """

    def has(self, value: Any) -> bool:
        """Whether an array is the framework's own and lies on the device; for training steps."""
        del value
        return False

    def receive(self, fields: Mapping[str, Any]) -> None:
        """Note that the calling thread will use arrays that `place` has returned in any thread."""
        del fields

    def buffer(self, size: int) -> Any:
        """Return a host buffer of so many bytes, of the kind that is copied fastest."""
        import numpy as np

        return np.ones(size, np.uint8)
