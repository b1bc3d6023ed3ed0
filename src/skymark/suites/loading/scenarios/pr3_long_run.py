"""PR-3: memory over a long run, which a library that forgets nothing makes grow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Size, scenario
from skymark.suites.loading.scenarios.io1_storage_formats import Sources

if TYPE_CHECKING:
    from skymark.model.cell import Setting


@scenario
class LongRun(Sources):
    """Read opaque objects epoch after epoch and weigh the process tree meanwhile.

    The figures are the memory that it settles at and the growth from there.
    """

    id: ClassVar = "PR-3"
    title: ClassVar = "memory over a long run: growth from epoch to epoch"
    tier: ClassVar = 2
    needs: ClassVar = frozenset({"map", "shuffle"})
    variants: ClassVar = {
        "small": Size(elements=1_010, batch_size=16, values={"object_bytes": 65_536}),
        "medium": Size(elements=10_010, batch_size=64, values={"object_bytes": 65_536}),
        "large": Size(elements=100_010, batch_size=256, values={"object_bytes": 65_536}),
    }
    axis_values: ClassVar = {}
    own_process: ClassVar = True
    times_as_long: ClassVar = 5
    drive: ClassVar = "long_run"

    @classmethod
    def requirements(cls, axes: Mapping[str, Setting]) -> frozenset[str]:
        """Ask for no source of its own."""
        del axes
        return cls.needs

    @classmethod
    def source(cls, axes: Mapping[str, Setting]) -> str | None:
        """Read from what the adapter recommends."""
        del axes
        return None
