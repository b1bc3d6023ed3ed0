"""IO-2: streaming against loading everything first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Size, scenario
from skymark.suites.loading.scenarios.io1_storage_formats import Sources

if TYPE_CHECKING:
    from skymark.model.cell import Setting


@scenario
class FirstBatch(Sources):
    """Read opaque objects as a stream from the recommended storage, or all of them beforehand.

    The figures are the time from opening the loader to its first batch and the peak of memory,
    from before the loader is opened.
    """

    id: ClassVar = "IO-2"
    title: ClassVar = "streaming or eager: time to first batch, peak memory"
    tier: ClassVar = 2
    needs: ClassVar = frozenset({"map", "shuffle"})
    variants: ClassVar = {
        "small": Size(elements=1_000, batch_size=16, values={"object_bytes": 65_536}),
        "medium": Size(elements=10_000, batch_size=64, values={"object_bytes": 65_536}),
        "large": Size(elements=100_000, batch_size=256, values={"object_bytes": 65_536}),
    }
    axis_values: ClassVar = {"mode": ("streaming", "eager")}
    own_process: ClassVar = True
    drive: ClassVar = "first_batch"

    @classmethod
    def requirements(cls, axes: Mapping[str, Setting]) -> frozenset[str]:
        """Ask for the ability that the mode names."""
        return cls.needs | {"eager" if axes["mode"] == "eager" else "stream"}

    @classmethod
    def source(cls, axes: Mapping[str, Setting]) -> str | None:
        """Read from memory when eager, else from what the adapter recommends."""
        return "memory" if axes["mode"] == "eager" else None
