"""Scenarios: the base class of a data set, its work by stages, and the abilities needed.

A scenario is one class in `scenarios`. The class body is light (no NumPy import), so that plans
and lists are quick; the methods do the work. All of a scenario's randomness comes from `draw`, a
table of parameters computed from (seed, epoch, index). The NumPy `stages` are the reference. Most
adapters run them unchanged; the oracle compares libraries' own operators with them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from skymark.model.errors import UsageError
from skymark.model.record import Setting
from skymark.suites.loading.work import Batch, Mixture, Parameters, Size, Stage

if TYPE_CHECKING:
    from pathlib import Path

    from skymark.suites.loading.dataset.canonical import Array, Dataset, Element
    from skymark.suites.loading.dataset.sources.data_source import DataSource

NEEDS = frozenset({"map", "shuffle"})
"""Abilities that every scenario of skymark's own asks for."""

TINY_BATCHES = 10
"""Whole batches of a ``tiny`` set: several for each worker, so that it can be seen whether an
adapter does what it should, and too few to time."""

LONG_BATCHES = 130
"""Whole batches of a ``long`` set, at least. An epoch then has a steady stream (`drives.stream`) at
8 workers × 4 batches, or at 16 × 2."""

FLOAT_BYTES = 4

STEP_BATCH = 256
"""The largest usual batch of images that a network is trained on."""


@dataclass(frozen=True)
class Scenario(ABC):
    """One scenario at one size, with its axis values and seed. Picklable.

    Class attributes describe the scenario; instances are made per cell.
    """

    size: Size
    seed: int = 0
    axes: Mapping[str, Setting] = field(default_factory=dict)

    id: ClassVar[str]
    title: ClassVar[str]
    tier: ClassVar[int] = 2
    needs: ClassVar[frozenset[str]] = NEEDS
    """Abilities an adapter must declare; see `skymark.suites.loading.adapter.ABILITIES`."""
    variants: ClassVar[Mapping[str, Size]]
    """The smallest first."""
    axis_values: ClassVar[Mapping[str, tuple[Setting, ...]]] = {}
    """Values that make one cell each, such as ``{"depth": (1, 5, 10, 50)}``."""
    own_process: ClassVar[bool] = False
    """Whether its cells share no process with others, because they measure memory or start-up."""
    times_as_long: ClassVar[int] = 1
    """Least time of a round over that which the effort asks for."""
    drive: ClassVar[str] = "epochs"
    """How the loader is driven and timed: a module of `skymark.suites.loading.drives`."""
    version: ClassVar[int] = 1
    """Raise when data, work or oracle change, so that old records are not reused."""
    images: ClassVar[tuple[str, ...]] = ()
    """Fields that hold images as a network is trained on: float32 ``[B, height, width, 3]``."""
    encoded_media: ClassVar[bool] = False
    """Whether elements hold encoded images or audio, for which one file each is usual."""
    codec: ClassVar[str | None] = None
    """Codec of the elements of its stage ``decode``, such as ``JPEG``. Runs then measure how fast
    the machine decodes alone. None if decoding is no part of its work."""
    holds_lock: ClassVar[bool] = False
    """Whether a batch of the reference's work holds Python's lock for longer than a transfer
    between processes takes, about a millisecond. Libraries with processes and threads then work in
    processes, and in threads otherwise."""
    in_double: ClassVar[bool] = False
    """Whether the work amplifies rounding, so that the reference is also computed in double
    precision. Its stages then keep the precision of their input."""
    native_tolerance: ClassVar[float] = 1e-3
    """Tolerance of float fields for a library's own operators."""
    native_mean_tolerance: ClassVar[float | None] = None
    """Largest mean absolute difference of any element for a library's own operators; the stricter
    test where single values may differ much."""
    variable_length: ClassVar[frozenset[str]] = frozenset()
    """Fields padded to the longest of the batch (last axis of the element is ragged)."""
    bucket_boundaries: ClassVar[tuple[int, ...]] = ()
    """Batches hold elements of one length bucket; empty for plain batches."""
    length_field: ClassVar[str | None] = None
    """The ragged field whose length, after the stages, decides the bucket."""
    columns: ClassVar[tuple[str, ...] | None] = None
    """Columns made of real data (`skymark.suites.loading.dataset.columns`); None for synthetic data
    only."""

    @classmethod
    def sizes(cls) -> Mapping[str, Size]:
        """Return the size of each variant, with two derived ones.

        ``tiny`` has the first `TINY_BATCHES` batches of the smallest. ``long`` is like ``medium``,
        with `LONG_BATCHES` batches at least. Its images are as small as the smallest variant's, and
        enough for as many batches of `STEP_BATCH`. The last batch is as short as in the original.
        """
        smallest = next(iter(cls.variants.values()))
        medium = cls.variants.get("medium", smallest)
        whole = TINY_BATCHES * smallest.batch_size
        elements = min(smallest.elements, whole + smallest.elements % smallest.batch_size)
        batch = max(medium.batch_size, STEP_BATCH if cls.images else 0)
        least = LONG_BATCHES * batch + medium.elements % medium.batch_size
        long = {
            "elements": max(medium.elements, least),
            "values": smallest.values if cls.images else medium.values,
        }
        return {
            "tiny": smallest.model_copy(update={"elements": elements}),
            **cls.variants,
            "long": medium.model_copy(update=long),
        }

    @classmethod
    def requirements(cls, axes: Mapping[str, Setting]) -> frozenset[str]:
        """Return the abilities one cell needs; override when an axis value needs more."""
        del axes
        return cls.needs

    @classmethod
    def source(cls, axes: Mapping[str, Setting]) -> str | None:
        """Return the kind of source of a cell, None for the adapter's recommended format.

        `skymark.suites.loading.storage_formats.BY_SOURCE` lists the kinds.
        """
        del axes
        return None

    @abstractmethod
    def generate(self, directory: Path) -> Dataset:
        """Write the synthetic dataset of this size and seed 0 in canonical form."""

    def open_dataset(self, directory: Path) -> Dataset:
        """Open the generated or imported dataset; override for data that is not stored."""
        from skymark.suites.loading.dataset.canonical import Dataset

        return Dataset(directory)

    @classmethod
    def imported_size(cls, source: DataSource, size: Size) -> Size:
        """Return a variant's size with real data: one element per row, at most as many as it has.

        Called when a run is planned. Override, with `import_source`, where a row is no element.
        """
        from skymark.suites.loading.dataset.columns import rows_size

        return rows_size(source, size)

    @classmethod
    def rows_taken(cls, source: DataSource, size: Size) -> int:
        """Return the number of rows of real data to read for a size from `imported_size`."""
        del source
        return size.elements

    def import_source(self, source: DataSource, directory: Path) -> Dataset:
        """Write `size.elements` elements of real data in canonical form."""
        from skymark.suites.loading.dataset.columns import write_columns

        return write_columns(source, self.columns or (), self.size.elements, directory)

    def draw(self, epoch: int, indices: Array) -> dict[str, Array]:
        """Return the random parameters of elements as a table.

        Args:
            epoch: which pass over the data.
            indices: int64 ``[n]``.

        Returns:
            name to array ``[n, ...]``; empty where the scenario draws nothing.
        """
        del epoch, indices
        return {}

    @abstractmethod
    def stages(self) -> tuple[Stage, ...]:
        """Return the per-element work, in order: the NumPy reference."""

    def collate(self, elements: list[Element]) -> Batch:
        """Make a batch of transformed elements: stack each field."""
        import numpy as np

        return {name: np.stack([np.asarray(e[name]) for e in elements]) for name in elements[0]}

    @property
    def collate_mistakes(self) -> Mapping[str, Callable[[list[Element]], Batch]]:
        """Wrong versions of `collate` worth recognising, by their description."""
        return {}

    def mix(self, batch: Batch, epoch: int) -> Batch:
        """Apply the work that needs a whole batch (MixUp); identity for most scenarios."""
        del epoch
        return batch

    @property
    def padding(self) -> Mapping[str, int]:
        """Padding values of ragged fields, by field, if not zero."""
        return {}

    @property
    def mixes(self) -> bool:
        """Whether there is batch-level work."""
        return type(self).mix is not Scenario.mix

    @property
    def shuffle(self) -> bool:
        """Whether each epoch must have another order; override if not."""
        return True

    @property
    def on_device(self) -> bool:
        """Whether the scenario itself puts batches on devices, whatever `deliver` is."""
        return "jax" in self.requirements(self.axes)

    @property
    def element_bytes(self) -> int:
        """Approximate bytes of a delivered element; 0 if unknown."""
        values = self.size.values
        sides = max(1, len(self.images)) * int(values.get("frames", 1))
        return (
            FLOAT_BYTES * 3 * sides * int(values.get("side", 0)) ** 2
            + FLOAT_BYTES * int(values.get("edge", 0)) ** 3
            + FLOAT_BYTES * int(values.get("features", 0))
            + int(values.get("object_bytes", 0))
        )

    @property
    def mixture(self) -> Mixture | None:
        """Sources to mix by weight; None if an epoch has every element once."""
        return None

    @property
    def epoch_elements(self) -> int:
        """Elements that an epoch delivers, over all ranks."""
        return self.size.elements if self.mixture is None else self.mixture.elements

    # What follows is shared machinery; scenarios do not override it.

    def parameters(self, epoch: int, index: int) -> Parameters:
        """Return one element's row of the table of random parameters."""
        return {name: column[index] for name, column in self.table(epoch).items()}

    def table(self, epoch: int) -> dict[str, Array]:
        """Return the whole epoch's parameters, cached for the two latest epochs."""
        draws = type(self).draw is not Scenario.draw
        return _table(self, epoch) if draws else {}

    def transform(self, element: Element, epoch: int) -> Element:
        """Apply all stages to one raw element, with its random parameters of this epoch."""
        parameters = self.parameters(epoch, int(element["index"]))
        for stage in _stages(self):
            element = stage.apply(element, parameters)
        return element

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


@lru_cache(maxsize=2)
def _table(scenario: Scenario, epoch: int) -> dict[str, Array]:
    import numpy as np

    return scenario.draw(epoch, np.arange(scenario.size.elements, dtype=np.int64))


@lru_cache(maxsize=4)
def _stages(scenario: Scenario) -> tuple[Stage, ...]:
    return scenario.stages()


SCENARIOS: dict[str, type[Scenario]] = {}


def scenario(cls: type[Scenario]) -> type[Scenario]:
    """Register a scenario class under its id.

    Raises:
        UsageError: another class has the id.
    """
    if SCENARIOS.get(cls.id, cls) is not cls:
        raise UsageError(
            f"scenario id {cls.id!r} is taken by {SCENARIOS[cls.id].__module__}; choose another id"
        )
    SCENARIOS[cls.id] = cls
    return cls
