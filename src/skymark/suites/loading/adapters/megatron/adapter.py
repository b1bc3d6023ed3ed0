"""Megatron Core: its indexed dataset, a data file and an index of its sequences, in a DataLoader.

As its guide to datasets says, an `IndexedDatasetBuilder` writes the data (``.bin``) and the index
(``.idx``), and an `IndexedDataset` maps them into memory. Each column has a pair of files, as each
key of a JSON line has in Megatron's preprocessing. Megatron trains with PyTorch's DataLoader and
resumes with a sampler that leaves out as many samples as were consumed; no worker's state is saved.

Its `GPTDataset` is not used: it lays documents end to end and cuts them every L tokens, whatever
document that is in, and tells of no batch which documents are in it. Sources are mixed by its
`BlendedDataset` (`blending`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.adapter import Adapter, Loader, LoadingJob, adapter
from skymark.suites.loading.adapters.megatron.blending import (
    Blend,
    Sequences,
    prefix_of,
    write_sequences,
)
from skymark.suites.loading.adapters.pytorch import Elements, EpochSampler, Key, PyTorchLoader
from skymark.suites.loading.devices import TORCH

if TYPE_CHECKING:
    from pathlib import Path

    from skymark.suites.loading.dataset.canonical import Dataset
    from skymark.suites.loading.scenario import Batch

FORMAT = "bin-idx"
OWN_FORMAT = "sequences are read from its own data files and their indices"


class UnconsumedKeys(EpochSampler):
    """This rank's keys from the first one that an interrupted epoch has not consumed.

    A blend, whose datasets are shuffled, is read from its beginning to its end.
    """

    consumed_samples = 0

    def __iter__(self) -> Iterator[Key]:
        keys = super().__iter__()
        if self.job.scenario.mixture is not None:
            keys = ((self.epoch.value, place) for place in range(len(self)))
        return islice(keys, self.consumed_samples, None)


class MegatronLoader(PyTorchLoader):
    """One DataLoader of sequences, whose position is the number of samples consumed."""

    elements: ClassVar = Sequences
    keys: ClassVar = UnconsumedKeys
    sampler: UnconsumedKeys
    consumed_samples = 0

    def dataset(self, job: LoadingJob) -> Elements:
        """Return the sequences, or the blend of several sources."""
        mixture = job.scenario.mixture
        return super().dataset(job) if mixture is None else Blend(job, mixture)

    def loader_class(self, job: LoadingJob) -> Any:
        """Return PyTorch's DataLoader, which need not know of positions."""
        del job
        from torch.utils.data import DataLoader

        return DataLoader

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Iterate over batches of tensors."""
        return self.rest(epoch, consumed_samples=0)

    def rest(self, epoch: int, consumed_samples: int) -> Iterator[Batch]:
        """Iterate over the batches that an epoch has left."""
        self.sampler.consumed_samples = self.consumed_samples = consumed_samples
        return self.counted(super().epoch(epoch))

    def counted(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Count the samples of batches as they are delivered."""
        for batch in batches:
            self.consumed_samples += len(batch["index"])
            yield batch

    def state(self) -> bytes:
        """Return the number of samples consumed."""
        return str(self.consumed_samples).encode()

    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        """Leave out the samples consumed, and iterate over the rest of the epoch."""
        return self.rest(epoch, int(state))


@adapter
class Megatron(Adapter):
    """`megatron.core.datasets.indexed_dataset.IndexedDataset` in a DataLoader."""

    slug: ClassVar = "megatron"
    name: ClassVar = "Megatron Core"
    distribution: ClassVar = "megatron-core"
    imports: ClassVar = "megatron.core.datasets.indexed_dataset"
    homepage: ClassVar = "https://docs.nvidia.com/megatron-core/developer-guide/latest"
    guide: ClassVar = (
        "https://docs.nvidia.com/megatron-core/developer-guide/latest/api-guide/datasets.html"
    )
    abilities: ClassVar = frozenset(
        {
            "map",
            "shuffle",
            "seeded",
            "worker-invariant",
            "batch-map",
            "variable-length",
            "pack",
            "bucket",
            "mix",
            "shard",
            "checkpoint",
            "stream",
        }
    )
    limits: ClassVar = {
        "seek": "its sampler draws a permutation of all indices, 8 bytes for each",
        "eager": "sequences are views of memory-mapped files, read as they are needed",
        "jax": "a DataLoader delivers PyTorch tensors, not JAX arrays",
        "source:memory": OWN_FORMAT,
        "source:files": OWN_FORMAT,
        "source:tar": OWN_FORMAT,
        "source:columnar": OWN_FORMAT,
        "source:http": "from object stores it reads 256 MiB at a time, which suits data that is "
        "shuffled beforehand",
    }
    mixing: ClassVar = "schedule"
    runs_in: ClassVar = ("processes",)
    formats: ClassVar = (FORMAT,)
    framework: ClassVar = "torch"
    acceleration: ClassVar = TORCH

    def convert(self, dataset: Dataset, directory: Path, format: str) -> None:
        """Write the data file and the index of each column."""
        if format != FORMAT:
            super().convert(dataset, directory, format)
        for column in dataset.columns:
            write_sequences(dataset, column, prefix_of(directory, column))

    def open(self, job: LoadingJob) -> Loader:
        """Return the DataLoader."""
        return MegatronLoader(job)
