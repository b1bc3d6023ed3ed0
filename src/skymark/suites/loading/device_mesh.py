"""Batches on a mesh of every JAX device: placement, and its check.

Where there is no accelerator, XLA divides the CPU into several devices, if it is told so before
JAX is imported: hence `mesh_variables`, for a process of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from skymark.suites.loading.scenario import Batch

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
    """Return a batch as JAX arrays on the mesh; a batch that is there already stays.

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
    """Describe the field that does not lie on the mesh as asked; None if all do."""
    for name, value in batch.items():
        found = getattr(value, "sharding", None)
        if found is None:
            return f"field {name!r} is a {type(value).__name__}, not an array on devices"
        if not found.is_equivalent_to(sharding, value.ndim):
            return f"field {name!r} is placed as {found}, where {sharding} was asked for"
        rows = {shard.data.shape[0] for shard in value.addressable_shards}
        if rows != {value.shape[0] // sharding.num_devices}:
            return f"the shards of field {name!r} have {sorted(rows)} rows of {value.shape[0]}"
    return None
