"""PR-4: shuffle quality, from the order of every element in every measured epoch."""

from __future__ import annotations

from typing import ClassVar

from skymark.suites.loading.scenario import Size, scenario
from skymark.suites.loading.scenarios.pr2_determinism import Determinism


@scenario
class ShuffleQuality(Determinism):
    """Scale and shift dense features by drawn amounts, shuffled as the library does by itself.

    There are more elements than a usual shuffle buffer holds, and many shards of them, so that
    kinds of shuffle differ.
    """

    id: ClassVar = "PR-4"
    title: ClassVar = "shuffle quality: displacement, neighbours, change between epochs"
    tier: ClassVar = 2
    needs: ClassVar = frozenset({"map", "shuffle"})
    variants: ClassVar = {
        "small": Size(elements=10_010, batch_size=64, values={"features": 8}),
        "medium": Size(elements=200_010, batch_size=256, values={"features": 8}),
        "large": Size(elements=2_000_010, batch_size=1024, values={"features": 8}),
    }
    drive: ClassVar = "shuffle_quality"
