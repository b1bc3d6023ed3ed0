"""PR-2: determinism. The same seed gives the same stream, whatever the worker count."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import Parameters, Scenario, Size, Stage, scenario

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Dataset, Element


@scenario
class Determinism(Scenario):
    """Scale and shift dense features by drawn amounts: ``features`` float32 ``[F]``.

    Order and content both depend on the seed, so that an ignored seed shows in either.
    """

    id: ClassVar = "PR-2"
    title: ClassVar = "determinism: same seed same stream, other seed other stream"
    tier: ClassVar = 1
    needs: ClassVar = frozenset({"map", "shuffle", "seeded", "worker-invariant"})
    variants: ClassVar = {
        "small": Size(elements=4_000, batch_size=64, values={"features": 16}),
        "medium": Size(elements=100_000, batch_size=256, values={"features": 64}),
        "large": Size(elements=2_000_000, batch_size=1024, values={"features": 128}),
    }
    drive: ClassVar = "determinism"

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``features`` float32 ``[F]``, ``label`` int64."""
        from skymark.suites.loading.dataset.tabular import write_dense

        return write_dense(directory, self.size.elements, self.size["features"])

    def draw(self, epoch: int, indices: Array) -> dict[str, Array]:
        """Draw ``scale`` in [0.5, 1.5) and ``shift`` in [-1, 1), float32 ``[n]``."""
        from skymark.suites.loading.random import uniforms

        drawn = uniforms(self.seed, epoch, indices, 2).astype("float32")
        return {"scale": drawn[:, 0] + 0.5, "shift": drawn[:, 1] * 2 - 1}

    def stages(self) -> tuple[Stage, ...]:
        """Scale, then shift."""

        def scale(element: Element, parameters: Parameters) -> Element:
            return {**element, "features": element["features"] * parameters["scale"]}

        def shift(element: Element, parameters: Parameters) -> Element:
            return {**element, "features": element["features"] + parameters["shift"]}

        return (Stage("scale", scale), Stage("shift", shift))
