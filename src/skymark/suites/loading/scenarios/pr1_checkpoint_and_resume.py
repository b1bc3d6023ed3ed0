"""PR-1: a checkpoint in the middle of an epoch, continued exactly in a new process."""

from __future__ import annotations

from typing import ClassVar

from skymark.suites.loading.scenario import Size, scenario
from skymark.suites.loading.scenarios.pr2_determinism import Determinism


@scenario
class Resuming(Determinism):
    """Scale and shift dense features by drawn amounts, stop half way, and go on elsewhere."""

    id: ClassVar = "PR-1"
    title: ClassVar = "checkpoint in mid-epoch, resume in a new process"
    tier: ClassVar = 2
    needs: ClassVar = frozenset({"map", "shuffle", "checkpoint"})
    variants: ClassVar = {
        "small": Size(elements=4_000, batch_size=64, values={"features": 16}),
        "medium": Size(elements=100_000, batch_size=256, values={"features": 64}),
        "large": Size(elements=2_000_000, batch_size=1024, values={"features": 128}),
    }
    drive: ClassVar = "resuming"
