"""PR-1 to PR-5: resuming, determinism, long runs, shuffle quality and seeking."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.scenario import NEEDS, Scenario, scenario
from skymark.suites.loading.scenarios.io_storage import Sources
from skymark.suites.loading.work import Parameters, Stage, on, three_sizes

if TYPE_CHECKING:
    from skymark.model.record import Setting
    from skymark.suites.loading.dataset.canonical import Array, Dataset, Element


@scenario
class Determinism(Scenario):
    """Scale and shift dense features by drawn amounts: ``features`` float32 ``[F]``.

    Order and content both depend on the seed. After the measured epochs, skymark opens the loader
    again with another number of workers (2, or 0 if it had 2 or more) and with another seed. The
    same seed must give the same first two epochs, and another seed another order.
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
    """Scale and shift dense features by drawn amounts, stop half way, and go on elsewhere.

    A further epoch follows the measured ones; skymark saves its position half way. A new process
    must deliver exactly the rest, in the same order. It saves its own position half way through the
    rest, and a third process must go on from there. ``state_bytes`` and ``save_s`` are the cost of
    saving; ``resume_import_s`` and ``resume_s`` (from opening the loader to its first batch) that
    of resuming.
    """

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

    A round lasts five times as long as elsewhere. skymark reads the proportional set size of the
    process tree between epochs, every 0.2 s at most. It keeps the later half of the readings.
    ``settled_memory_bytes`` is their median, and ``memory_growth_bytes_per_1000_samples`` the
    median slope between two of them (Theil, 1950; Sen, 1968). Fewer than 6 readings, as with
    ``--effort check``, give no figure. The oracle compares two batches of each epoch.
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
        """Read from the recommended storage."""
        del axes
        return None


@scenario
class ShuffleQuality(Determinism):
    """Scale and shift dense features by drawn amounts, shuffled as the library does by itself.

    There are more elements than a usual shuffle buffer holds, and many shards of them, so that
    kinds of shuffle differ. The statistics are means over the measured epochs. A shuffle that is
    declared ``global`` is ``hardly-shuffled`` with ``shuffle_displacement`` or
    ``batch_neighbourhoods`` below a half, or ``stream_neighbours`` of a half or more.
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

    Nothing is stored: features are hashes of the index (MurmurHash3's finaliser). Two fresh
    processes open the loader. The first one starts epoch 1 at its first batch, the second in its
    middle; both run for a second or more. Only libraries that compute each index from its position
    can do this: a list of all indices would take 8 GB for ``large``. ``seek_s`` and
    ``seek_memory_bytes`` are the time to the first batch and the peak memory in the middle, beside
    ``open_to_first_batch_s`` and ``start_memory_bytes`` at the start. The oracle checks that both
    stretches have distinct elements, none in common, that an unbroken run gives the same stretch,
    and that other epochs and seeds do not. Elements beyond the stretches are not seen.
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
        """Centre: ``2x - 1``."""
        return (Stage("centre", on("features", lambda features: 2 * features - 1)),)
