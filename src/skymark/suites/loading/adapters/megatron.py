"""Megatron Core: its indexed dataset, a data file and an index of its sequences, in a DataLoader.

As its guide says, an `IndexedDatasetBuilder` writes the data (``.bin``) and the index (``.idx``),
and an `IndexedDataset` maps them into memory. Each column has a pair of files, as each key of a
JSON line has in Megatron's preprocessing. `workers` are the processes of PyTorch's DataLoader. A
resumed epoch leaves out the consumed samples; no worker's state is saved. On Python 3.11 the newest
release is 0.16; later releases need Python 3.12.

The adapter does not use `GPTDataset`, which cuts documents every L tokens and does not tell the
documents of a batch. A `BlendedDataset` mixes sources by an exact schedule, computed when the
dataset is made. Each source is read again and again, in a shuffled order of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from itertools import islice
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.adapter import LoadingJob, SkippingLoader, adapter, all_but
from skymark.suites.loading.adapters.pytorch import (
    BY_SAMPLER,
    EpochSampler,
    InDataLoader,
    MapStyleElements,
    PyTorchLoader,
    SharedWork,
)

if TYPE_CHECKING:
    from pathlib import Path

    from skymark.suites.loading.dataset.canonical import Column, Dataset, Element
    from skymark.suites.loading.work import Batch, Mixture


class Sequences(MapStyleElements):
    """Elements of one sequence per column, read from memory-mapped files."""

    def open(self) -> None:
        """Map the files of each column into memory."""
        from megatron.core.datasets.indexed_dataset import IndexedDataset

        job = self.job
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


class Blend(MapStyleElements):
    """Elements of a blend, by their places in it."""

    def __init__(self, work: SharedWork, mixture: Mixture) -> None:
        self.stream = blended(Sequences(work), mixture)
        self.drawn: int | None = None
        super().__init__(work)

    def open(self) -> None:
        """Open nothing: the sequences are open."""

    def read(self, indices: list[int]) -> Iterator[Element]:
        """Yield elements, without the number of the source that the library adds.

        The first batch of an epoch draws the orders.
        """
        if (epoch := self.work.epoch) != self.drawn:
            for number, source in enumerate(self.stream.datasets):
                source.begin([self.job.shuffle_seed(epoch), number])
            self.drawn = epoch
        for place in indices:
            element = self.stream[place]
            del element["dataset_id"]
            yield element


class Unconsumed(EpochSampler):
    """This rank's elements that an interrupted epoch has not consumed, in order.

    A blend, whose datasets are shuffled, is read from its beginning to its end.
    """

    consumed_samples = 0

    def __iter__(self) -> Iterator[int]:
        places: Iterator[int] = iter(range(len(self)))
        elements = super().__iter__() if self.job.scenario.mixture is None else places
        return islice(elements, self.consumed_samples, None)


class MegatronLoader(SkippingLoader, PyTorchLoader):
    """One DataLoader of sequences, whose position is the number of samples consumed."""

    keys: ClassVar = Unconsumed
    sampler: Unconsumed

    def __init__(self, job: LoadingJob) -> None:
        mixture = job.scenario.mixture
        super().__init__(job, Sequences if mixture is None else partial(Blend, mixture=mixture))

    def loader_class(self) -> Any:
        """Return PyTorch's DataLoader, which need not know of positions."""
        from torch.utils.data import DataLoader

        return DataLoader

    def after(self, epoch: int, batches: int) -> Iterator[Batch]:
        """Return batches of tensors, without the samples consumed."""
        self.sampler.consumed_samples = batches * self.sampler.job.batch_size
        return PyTorchLoader.epoch(self, epoch)


@adapter
class Megatron(InDataLoader):
    """`megatron.core.datasets.indexed_dataset.IndexedDataset` in a DataLoader."""

    slug: ClassVar = "megatron"
    name: ClassVar = "Megatron Core"
    distribution: ClassVar = "megatron-core"
    imports: ClassVar = "megatron.core.datasets.indexed_dataset"
    requirements: ClassVar = ("megatron-core", "torch")
    homepage: ClassVar = "https://docs.nvidia.com/megatron-core/developer-guide/latest"
    guide: ClassVar = (
        "https://docs.nvidia.com/megatron-core/developer-guide/latest/api-guide/datasets.html"
    )
    loader: ClassVar = MegatronLoader
    abilities: ClassVar = all_but(
        {
            **BY_SAMPLER,
            "eager": "sequences are views of memory-mapped files, read on demand",
            "source:http": "from object stores it reads 268 MB at a time, which only suits data "
            "shuffled in advance",
        }
    )
    mixing: ClassVar = "schedule"
    formats: ClassVar = ("bin-idx",)

    def convert(self, dataset: Dataset, directory: Path, format: str) -> None:
        """Write the data file and the index of each column."""
        del format
        for column in dataset.columns:
            write_sequences(dataset, column, prefix_of(directory, column))
