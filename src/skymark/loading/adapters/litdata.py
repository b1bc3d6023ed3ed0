"""LitData: chunks written by `optimize`, a StreamingDataset and its StreamingDataLoader."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.loading.adapter import Adapter, Job, Loader, adapter
from skymark.loading.bucketing import Batches

if TYPE_CHECKING:
    from pathlib import Path

    from skymark.loading.dataset.canonical import Dataset, Element
    from skymark.loading.scenario import Batch

CHUNK_BYTES = 64 * 2**20
"""The size that the library recommends."""
CHUNKS = 32
"""Chunks of a dataset that is small, so that workers need not share one."""


class Work:
    """What is done in the workers, with the epoch shared by those that live on."""

    def __init__(self, job: Job) -> None:
        from multiprocessing import Value

        self.job = job
        self.current = Value("q", 0, lock=False)
        self.columns = job.dataset.columns

    def transformed(self, element: Element) -> Element:
        """Apply the scenario's work to one element as it was stored."""
        import numpy as np

        for column in self.columns:
            if column.encoding != "raw":
                element[column.name] = np.frombuffer(element[column.name], np.uint8)
            elif column.shape == ():
                element[column.name] = np.asarray(element[column.name], column.dtype)
        return self.job.transform(element, self.current.value)

    def collated(self, elements: list[Element]) -> dict[str, Any]:
        """Make a batch of elements and do its batch-level work."""
        job, batch = self.job, self.job.collate(elements)
        return tensors(job.mix(batch, self.current.value) if job.scenario.mixes else batch)


def tensors(batch: Batch) -> dict[str, Any]:
    """Turn arrays into tensors, which travel between processes in shared memory."""
    import torch

    return {name: torch.as_tensor(value) for name, value in batch.items()}


class LitDataLoader(Loader):
    """One StreamingDataLoader whose workers live on from epoch to epoch."""

    def __init__(self, job: Job) -> None:
        import os

        from litdata import StreamingDataLoader, StreamingDataset
        from torch.utils.data import DataLoader, IterableDataset

        if job.world > 1:
            os.environ["GLOBAL_RANK"] = str(job.rank)
        self.work = work = Work(job)
        dataset = StreamingDataset(
            str(job.storage),
            shuffle=job.shuffle,
            seed=job.shuffle_seed(0),
            drop_last=job.drop_last,
            transform=work.transformed,
        )
        workers = {
            "num_workers": job.workers,
            "persistent_workers": job.workers > 0,
            "prefetch_factor": job.prefetch if job.workers else None,
        }
        if job.scenario.bucket_boundaries:
            IterableDataset.register(Batches)
            stream: Any = Batches(dataset, job)
            self.loader = DataLoader(stream, batch_size=None, collate_fn=tensors, **workers)
        else:
            self.loader = StreamingDataLoader(
                dataset,
                batch_size=job.batch_size,
                collate_fn=work.collated,
                drop_last=job.drop_last,
                **workers,
            )

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Iterate over batches of tensors; the library derives the epoch's order from its number."""
        self.work.current.value = epoch
        self.loader.current_epoch = epoch  # counted up at the beginning, so that its first is 1
        return iter(self.loader)

    def state(self) -> bytes:
        """Return the StreamingDataLoader's own state."""
        return pickle.dumps(self.loader.state_dict())

    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        """Load it, and iterate over the rest of the epoch."""
        self.work.current.value = epoch
        self.loader.load_state_dict(pickle.loads(state))
        return iter(self.loader)

    def close(self) -> None:
        """End the workers; to drop the loader is not enough, as its iterator holds it."""
        if self.loader._iterator is not None:
            self.loader._iterator._shutdown_workers()


@adapter
class LitData(Adapter):
    """`litdata.StreamingDataset` over optimised chunks."""

    slug: ClassVar = "litdata"
    name: ClassVar = "LitData"
    distribution: ClassVar = "litdata"
    imports: ClassVar = "litdata"
    homepage: ClassVar = "https://github.com/Lightning-AI/litData"
    abilities: ClassVar = frozenset(
        {
            "map",
            "shuffle",
            "seeded",
            "batch-map",
            "variable-length",
            "bucket",
            "shard",
            "checkpoint",
            "stream",
        }
    )
    limits: ClassVar = {
        "worker-invariant": "chunks are divided among the workers, so the order depends on how "
        "many there are",
        "eager": "elements always stream from their chunks",
        "jax": "its DataLoader delivers PyTorch tensors, not JAX arrays",
    }
    formats: ClassVar = ("chunks",)
    environment: ClassVar = {"LITDATA_DISABLE_VERSION_CHECK": "1"}

    def convert(self, dataset: Dataset, directory: Path, format: str) -> None:
        """Write chunks with `optimize` and the library's own serialisers."""
        import os
        from functools import partial
        from tempfile import TemporaryDirectory

        import litdata

        if format != "chunks":
            super().convert(dataset, directory, format)
        stored_bytes = sum(path.stat().st_size for path in dataset.directory.iterdir())
        with TemporaryDirectory() as temporary:
            os.environ["DATA_OPTIMIZER_CACHE_FOLDER"] = temporary
            os.environ["DATA_OPTIMIZER_DATA_CACHE_FOLDER"] = temporary
            litdata.optimize(
                fn=partial(stored, dataset),
                inputs=list(range(len(dataset))),
                output_dir=str(directory),
                chunk_bytes=min(CHUNK_BYTES, -(-stored_bytes // CHUNKS)),
                num_workers=1,
                start_method="fork",
            )

    def open(self, job: Job) -> Loader:
        """Return the StreamingDataLoader."""
        return LitDataLoader(job)


def stored(dataset: Dataset, index: int) -> Element:
    """Return an element as it is to be stored: encoded media as bytes, scalars as numbers."""
    element = dataset[index]
    for column in dataset.columns:
        if column.encoding != "raw":
            element[column.name] = element[column.name].tobytes()
        elif column.shape == ():
            element[column.name] = element[column.name].item()
    return element
