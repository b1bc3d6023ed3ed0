"""JAX's ways to accelerators: page-locked memory to one device, or a mesh of all of them.

Without an accelerator, XLA can divide the CPU into several devices. It needs `mesh_variables`
before JAX is imported, and thus a process of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from skymark.model.machine import Platform
from skymark.suites.loading.delivery.framework import Framework, FrameworkName, Placed
from skymark.suites.loading.devices import HOST

if TYPE_CHECKING:
    from skymark.suites.loading.work import Batch


PAGE_LOCKED = "pinned_host"
"""JAX's name of it (https://docs.jax.dev/en/latest/201/memory-spaces.html)."""


class Jax(Framework):
    """A local device of JAX's backend for the platform.

    A copy from NumPy's pageable memory has a tenth of the bus's rate. So arrays are copied to
    page-locked memory first, a memory kind of the device in JAX.

    Attributes:
        page_locked: page-locked memory; None for a CPU or a device without it.
    """

    name: ClassVar[FrameworkName] = "jax"

    def __init__(self, platform: Platform, number: int) -> None:
        import jax

        self.jax = jax
        devices = jax.local_devices(backend=platform)
        self.device = devices[number % len(devices)]
        self.page_locked: Any = None if platform == HOST else page_locked_memory(self.device)

    def bytes_to_move(self, value: Any) -> int:
        """Return the bytes of an array that is not on the device."""
        return 0 if self._is_there(value) else int(value.nbytes)

    def place(self, batch: Mapping[str, Any]) -> Placed:
        """Copy all arrays, to an accelerator in one call, and wait for all.

        Integers of 64 bits stay such: JAX would cut them to 32 bits, and half of the bytes.
        """
        there = {name: value for name, value in batch.items() if self._is_there(value)}
        on_host = {
            name: value if isinstance(value, self.jax.Array) else np.asarray(value)
            for name, value in batch.items()
            if name not in there
        }
        self.jax.block_until_ready(there)
        with self.jax.enable_x64(True):
            if self.page_locked is not None:
                on_host = self._put(on_host, self.page_locked)
            begin_ns = time.perf_counter_ns()
            placed = self._copied(on_host)
            copy_ns = time.perf_counter_ns() - begin_ns
        return Placed({name: there.get(name, placed.get(name)) for name in batch}, copy_ns)

    def buffer(self, size: int) -> Any:
        """Return page-locked memory if the device has it."""
        buffer = super().buffer(size)
        return buffer if self.page_locked is None else self._put(buffer, self.page_locked)

    def _copied(self, on_host: dict[str, Any]) -> Any:
        """Copy; on the CPU `device_put` would share aligned memory of the host.

        It shares the memory even with ``may_alias=False`` (JAX 0.10.2).
        """
        if self.device.platform == HOST and self.page_locked is None:
            array = self.jax.numpy.array
            copies = {name: array(value, device=self.device) for name, value in on_host.items()}
            return self.jax.block_until_ready(copies)
        return self._put(on_host, self.jax.sharding.SingleDeviceSharding(self.device))

    def _put(self, arrays: Any, sharding: Any) -> Any:
        """Put arrays into a memory, and wait for them."""
        return self.jax.block_until_ready(self.jax.device_put(arrays, sharding))

    def has(self, value: Any) -> bool:
        """Whether it is an array of JAX on the device, in whatever memory."""
        return isinstance(value, self.jax.Array) and value.devices() == {self.device}

    def _is_there(self, value: Any) -> bool:
        if not self.has(value):
            return False
        return value.sharding.memory_kind in (None, self.device.default_memory().kind)


def page_locked_memory(device: Any) -> Any:
    """Return the sharding of a device's page-locked host memory; None if JAX has none for it."""
    from jax.sharding import SingleDeviceSharding

    if PAGE_LOCKED not in {memory.kind for memory in device.addressable_memories()}:
        return None
    return SingleDeviceSharding(device, memory_kind=PAGE_LOCKED)


SIMULATED_DEVICES = 4
AXIS = "data"


def mesh_variables() -> dict[str, str]:
    """Return the variables that make `SIMULATED_DEVICES` devices of a CPU.

    XLA ignores the flag where JAX uses an accelerator.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    return {
        "XLA_FLAGS": f"{flags} --xla_force_host_platform_device_count={SIMULATED_DEVICES}".strip()
    }


def batch_sharding() -> Any:
    """Return a `NamedSharding` that divides the first dimension among all devices."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = jax.sharding.Mesh(np.array(jax.devices()), (AXIS,))
    return NamedSharding(mesh, PartitionSpec(AXIS))


def place(batch: Batch, sharding: Any) -> dict[str, Any]:
    """Return a batch as JAX arrays on the mesh; a batch on the mesh stays.

    The first dimension must be a multiple of the number of devices.
    """
    import jax

    host = {
        name: value if isinstance(value, jax.Array) else np.asarray(value)
        for name, value in batch.items()
    }
    placed: dict[str, Any] = jax.device_put(host, sharding)
    return placed


def await_batch(batch: Mapping[str, Any]) -> None:
    """Block until every array of a batch is on its devices."""
    import jax

    jax.block_until_ready(batch)


def misplaced(batch: Mapping[str, Any], sharding: Any) -> str | None:
    """Describe a field with a wrong place on the mesh; None without one."""
    for name, value in batch.items():
        found = getattr(value, "sharding", None)
        if found is None:
            return f"field {name!r} is a {type(value).__name__}, not an array on devices"
        if not found.is_equivalent_to(sharding, value.ndim):
            return f"field {name!r} is placed as {found}, and the job requires {sharding}"
        rows = {shard.data.shape[0] for shard in value.addressable_shards}
        if rows != {value.shape[0] // sharding.num_devices}:
            return f"the shards of field {name!r} have {sorted(rows)} rows of {value.shape[0]}"
    return None
