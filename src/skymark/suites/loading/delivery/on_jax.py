"""JAX's way to an accelerator: `jax.device_put`, then `block_until_ready`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from skymark.model.platform import Platform
from skymark.suites.loading.delivery.framework import Framework, FrameworkName
from skymark.suites.loading.devices import HOST


class Jax(Framework):
    """A local device of JAX's backend for the platform."""

    name: ClassVar[FrameworkName] = "jax"

    def __init__(self, platform: Platform, number: int) -> None:
        import jax

        self.jax = jax
        devices = jax.local_devices(backend=platform)
        self.device = devices[number % len(devices)]

    def bytes_to_move(self, value: Any) -> int:
        """Return the bytes of an array that is not on the device."""
        return 0 if self._is_there(value) else int(value.nbytes)

    def place(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Copy all arrays, to an accelerator in one call, and wait for them.

        Integers of 64 bits stay such: JAX would cut them to 32 bits, and half of the bytes.
        """
        there = {name: value for name, value in batch.items() if self._is_there(value)}
        on_host = {
            name: value if isinstance(value, self.jax.Array) else np.asarray(value)
            for name, value in batch.items()
            if name not in there
        }
        with self.jax.enable_x64(True):
            placed = self._copied(on_host)
        placed = {name: there.get(name, placed.get(name)) for name in batch}
        self.jax.block_until_ready(placed)
        return placed

    def _copied(self, on_host: dict[str, Any]) -> dict[str, Any]:
        """Start the copies; on the CPU `device_put` would use aligned memory of the host as it is.

        It does so even with ``may_alias=False`` (JAX 0.10.2).
        """
        if self.device.platform == HOST:
            array = self.jax.numpy.array
            return {name: array(value, device=self.device) for name, value in on_host.items()}
        placed: dict[str, Any] = self.jax.device_put(on_host, self.device)
        return placed

    def _is_there(self, value: Any) -> bool:
        return isinstance(value, self.jax.Array) and value.devices() == {self.device}
