"""DIST-2: batches placed on a mesh of JAX devices."""

from __future__ import annotations

from typing import ClassVar

from skymark.suites.loading.scenario import Size, scenario
from skymark.suites.loading.scenarios.tab1_dense_features import DenseFeatures


@scenario
class DeviceMesh(DenseFeatures):
    """Standardise dense features and divide every batch among all JAX devices.

    Where there is no accelerator, XLA simulates devices on the CPU.
    """

    id: ClassVar = "DIST-2"
    title: ClassVar = "batches placed on a JAX device mesh"
    tier: ClassVar = 2
    needs: ClassVar = frozenset({"map", "shuffle", "jax"})
    variants: ClassVar = {
        "small": Size(elements=13_312, batch_size=256, values={"features": 64}),
        "medium": Size(elements=131_072, batch_size=1024, values={"features": 256}),
        "large": Size(elements=1_048_576, batch_size=8192, values={"features": 512}),
    }
    holds_lock: ClassVar = False
    drive: ClassVar = "mesh"
