"""DIST-1 and DIST-2: ranks that share a dataset, and a mesh of JAX devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import NEEDS, scenario
from skymark.suites.loading.scenarios.tab_tables import DenseFeatures
from skymark.suites.loading.work import three_sizes

if TYPE_CHECKING:
    from skymark.model.record import Setting


@scenario
class Ranks(DenseFeatures):
    """Standardise dense features in several processes, each with its share of the elements.

    The processes run on this machine and start as ``torchrun`` starts them. ``--workers`` counts
    per rank. An epoch lasts from the first rank's start to the last rank's end. No number of ranks
    divides the number of elements, so that a loader that pads or drops is found out: all ranks
    together must deliver each element once. ``scaling_efficiency`` is the throughput over that of
    as many single ranks, measured in the same round.
    """

    id: ClassVar = "DIST-1"
    title: ClassVar = "ranks share a dataset: exactly once over all, scaling efficiency"
    tier: ClassVar = 2
    needs: ClassVar = NEEDS | {"shard"}
    variants: ClassVar = three_sizes(
        elements=(20_001, 200_001, 2_000_001),
        batch_size=(64, 256, 1024),
        features=(32, 64, 128),
    )
    axis_values: ClassVar = {"ranks": (1, 2, 4)}
    holds_lock: ClassVar = False
    drive: ClassVar = "ranks"

    @property
    def ranks(self) -> int:
        """The number of processes that share the data."""
        return int(self.axes["ranks"])

    @classmethod
    def requirements(cls, axes: Mapping[str, Setting]) -> frozenset[str]:
        """Ask for sharing only where there are several ranks."""
        return cls.needs if axes["ranks"] != 1 else cls.needs - {"shard"}


@scenario
class DeviceMesh(DenseFeatures):
    """Standardise dense features and divide every batch among all JAX devices.

    A wait ends when the batch lies on the devices (`NamedSharding`). Without an accelerator, XLA
    simulates 4 devices on the CPU. All batches are full, because they must divide among the
    devices. The oracle also checks that every field lies on the mesh as asked.
    """

    id: ClassVar = "DIST-2"
    title: ClassVar = "batches placed on a JAX device mesh"
    tier: ClassVar = 2
    needs: ClassVar = NEEDS | {"jax"}
    variants: ClassVar = three_sizes(
        elements=(13_312, 131_072, 1_048_576),
        batch_size=(256, 1024, 8192),
        features=(64, 256, 512),
    )
    holds_lock: ClassVar = False
    drive: ClassVar = "mesh"
