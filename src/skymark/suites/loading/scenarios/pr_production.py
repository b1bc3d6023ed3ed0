"""PR-1 to PR-5: resuming, determinism, long runs, shuffle quality and seeking."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import (
    NEEDS,
    Parameters,
    Scenario,
    Stage,
    on,
    scenario,
    three_sizes,
)
from skymark.suites.loading.scenarios.io_storage import Sources

if TYPE_CHECKING:
    from skymark.model.record import Setting
    from skymark.suites.loading.dataset.canonical import Array, Dataset, Element


@scenario
class Determinism(Scenario):
    """Scale and shift dense features by drawn amounts: ``features`` float32 ``[F]``.

    Order and content both depend on the seed, so that an ignored seed shows in either.
    """

    id: ClassVar = "PR-2"
    title: ClassVar = "determinism: same seed same stream, other seed other stream"
    tier: ClassVar = 1
    needs: ClassVar = NEEDS | {"seeded", "worker-invariant"}
    variants: ClassVar = three_sizes(
        elements=(4_000, 100_000, 2_000_000),
        batch_size=(64, 256, 1024),
        features=(16, 64, 128),
    )
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


@scenario
class Resuming(Determinism):
    """Scale and shift dense features by drawn amounts, stop half way, and go on elsewhere."""

    id: ClassVar = "PR-1"
    title: ClassVar = "checkpoint in mid-epoch, resume in a new process"
    tier: ClassVar = 2
    needs: ClassVar = NEEDS | {"checkpoint"}
    variants: ClassVar = three_sizes(
        elements=(4_000, 100_000, 2_000_000),
        batch_size=(64, 256, 1024),
        features=(16, 64, 128),
    )
    drive: ClassVar = "resuming"


@scenario
class LongRun(Sources):
    """Read opaque objects epoch after epoch and weigh the process tree meanwhile.

    The figures are the memory that it settles at and the growth from there.
    """

    id: ClassVar = "PR-3"
    title: ClassVar = "memory over a long run: growth from epoch to epoch"
    tier: ClassVar = 2
    variants: ClassVar = three_sizes(
        elements=(1_010, 10_010, 100_010),
        batch_size=(16, 64, 256),
        object_bytes=65_536,
    )
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


@scenario
class ShuffleQuality(Determinism):
    """Scale and shift dense features by drawn amounts, shuffled as the library does by itself.

    There are more elements than a usual shuffle buffer holds, and many shards of them, so that
    kinds of shuffle differ.
    """

    id: ClassVar = "PR-4"
    title: ClassVar = "shuffle quality: displacement, neighbours, change between epochs"
    needs: ClassVar = NEEDS
    tier: ClassVar = 2
    variants: ClassVar = three_sizes(
        elements=(10_010, 200_010, 2_000_010),
        batch_size=(64, 256, 1024),
        features=8,
    )
    drive: ClassVar = "shuffle_quality"


@scenario
class Seeking(Scenario):
    """Centre features that are computed from an element's index: ``features`` float32 ``[F]``.

    Nothing is stored and nothing drawn but the order, so that what an index costs is all there is.
    """

    id: ClassVar = "PR-5"
    title: ClassVar = "start in mid-epoch of up to a billion elements that are not stored"
    needs: ClassVar = NEEDS | {"seek"}
    variants: ClassVar = three_sizes(
        elements=(10_000_000, 100_000_000, 1_000_000_000),
        batch_size=(64, 256, 256),
        features=8,
    )
    own_process: ClassVar = True
    drive: ClassVar = "seeking"

    @classmethod
    def source(cls, axes: Mapping[str, Setting]) -> str | None:
        """Read from no storage."""
        del axes
        return "computed"

    def generate(self, directory: Path) -> Dataset:
        """Columns: ``features`` float32 ``[F]``, uniform in [0, 1)."""
        from skymark.suites.loading.dataset.tabular import write_computed

        widths = {"features": self.size["features"]}
        return write_computed(directory, "computed rows", self.size.elements, widths)

    def open_dataset(self, directory: Path) -> Dataset:
        """Open what computes the elements."""
        from skymark.suites.loading.dataset.tabular import ComputedDataset

        return ComputedDataset(directory)

    def stages(self) -> tuple[Stage, ...]:
        """Centre."""
        return (Stage("centre", on("features", lambda features: 2 * features - 1)),)
