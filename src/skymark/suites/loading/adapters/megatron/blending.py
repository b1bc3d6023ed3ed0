"""A `BlendedDataset` of sources, each a dataset that is gone through again and again.

The library picks the source of every sample by an exact schedule, computed when the dataset is
made, and the number of the sample in it; which element that is, each dataset decides by its own
shuffled order. Its sampler reads the blend from the beginning to the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import ceil
from typing import TYPE_CHECKING, Any

from skymark.suites.loading.adapter import LoadingJob
from skymark.suites.loading.adapters.pytorch import Elements, Key

if TYPE_CHECKING:
    from pathlib import Path

    from skymark.suites.loading.dataset.canonical import Column, Dataset, Element
    from skymark.suites.loading.element_streams import Mixture


class Sequences(Elements):
    """Elements of one sequence per column, read from memory-mapped files."""

    def __init__(self, job: LoadingJob) -> None:
        from megatron.core.datasets.indexed_dataset import IndexedDataset

        self.job = job
        self.columns = [
            (column, IndexedDataset(prefix_of(job.storage, column)))
            for column in job.dataset.columns
        ]

    def read(self, indices: list[int]) -> Iterator[Element]:
        """Yield elements whose arrays are views of the files."""
        for index in indices:
            element: Element = {"index": index}
            for column, sequences in self.columns:
                values = sequences[index]
                element[column.name] = values if column.is_ragged else values.reshape(column.shape)
            yield element


def prefix_of(directory: Path, column: Column) -> str:
    """Return the path of a column's files without their endings."""
    return str(directory / column.name)


def write_sequences(dataset: Dataset, column: Column, prefix: str) -> None:
    """Write one column, each element a sequence and a document."""
    import numpy as np
    from megatron.core.datasets.indexed_dataset import (
        IndexedDatasetBuilder,
        get_bin_path,
        get_idx_path,
    )

    builder = IndexedDatasetBuilder(get_bin_path(prefix), dtype=np.dtype(column.dtype).type)
    for element in dataset:
        values = np.ravel(element[column.name])
        builder.add_document(values, [values.size])
    builder.finalize(get_idx_path(prefix))


@cache
def source_class() -> Any:
    """Make the dataset of one source; the library is not imported before."""
    import numpy as np
    from megatron.core.datasets.megatron_dataset import MegatronDataset

    class Source(MegatronDataset):  # type: ignore[misc]
        """As many passes over some sequences as have the samples asked for."""

        def begin(self, seed: list[int]) -> None:
            """Draw the order of every pass of an epoch."""
            generator = np.random.default_rng(seed)
            drawn = [generator.permutation(self.indices) for _ in range(self.passes)]
            self.order = np.concatenate(drawn)

        @property
        def passes(self) -> int:
            return -(-int(self.num_samples) // len(self.indices))

        def __len__(self) -> int:
            return self.passes * len(self.indices)

        def __getitem__(self, idx: int) -> Element:
            [element] = self.dataset.read([int(self.order[idx])])
            return element  # type: ignore[no-any-return]

    return Source


def blended(sequences: Sequences, mixture: Mixture) -> Any:
    """Return the `BlendedDataset` of a mixture's sources, an epoch long."""
    import numpy as np
    from megatron.core.datasets.blended_dataset import BlendedDataset
    from megatron.core.datasets.blended_megatron_dataset_config import (
        BlendedMegatronDatasetConfig,
    )
    from megatron.core.datasets.utils import Split

    weights = list(mixture.weights)
    names = [f"source-{number}" for number in range(len(weights))]
    config = BlendedMegatronDatasetConfig(
        random_seed=0, sequence_length=1, blend=(names, weights), split="1,0,0"
    )
    # A margin that its builder of blends has, too: the schedule may ask for one sample more.
    surplus = 1 + config.mid_level_dataset_surplus
    sources = [
        source_class()(
            dataset=sequences,
            dataset_path=name,
            indices=np.arange(*bounds),
            num_samples=ceil(weight * mixture.elements * surplus),
            index_split=Split.train,
            config=config,
        )
        for name, bounds, weight in zip(names, mixture.bounds, weights, strict=True)
    ]
    return BlendedDataset(sources, weights, mixture.elements, config)


class Blend(Elements):
    """Elements of a blend, by their places in it."""

    def __init__(self, job: LoadingJob, mixture: Mixture) -> None:
        self.job = job
        self.stream = blended(Sequences(job), mixture)
        self.epoch: int | None = None

    def fetch(self, keys: list[Key]) -> Iterator[tuple[int, Element]]:
        """Read and transform elements of one epoch, of which the first batch draws the orders."""
        epoch, _ = keys[0]
        if epoch != self.epoch:
            for number, source in enumerate(self.stream.datasets):
                source.begin([self.job.shuffle_seed(epoch), number])
            self.epoch = epoch
        return super().fetch(keys)

    def read(self, indices: list[int]) -> Iterator[Element]:
        """Yield elements, without the number of the source that the library adds."""
        for place in indices:
            element = self.stream[place]
            del element["dataset_id"]
            yield element
