"""LitData: chunks written by `optimize`, a StreamingDataset and its StreamingDataLoader.

Where a scenario asks for Parquet files, they are read in the calling process: Polars, which reads
them with threads of its own, cannot be forked, and workers that are spawned take seconds to start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.adapter import Adapter, Execution, Loader, LoadingJob, adapter
from skymark.suites.loading.adapters.litdata.mixing import mixed
from skymark.suites.loading.devices import TORCH
from skymark.suites.loading.element_streams import Batches

if TYPE_CHECKING:
    from pathlib import Path

    from skymark.suites.loading.dataset.canonical import Dataset, Element
    from skymark.suites.loading.scenario import Batch

CHUNK_BYTES = 64 * 2**20
"""The size that the library recommends."""
CHUNKS = 32
"""Chunks of a dataset that is small, so that workers need not share one."""


class Work:
    """The work of the worker processes; those that live on share its epoch."""

    def __init__(self, job: LoadingJob) -> None:
        from multiprocessing import Value

        self.job = job
        self.current = Value("q", 0, lock=False)
        self.columns = job.dataset.columns

    def transformed(self, element: Element) -> Element:
        """Apply the scenario's work to one stored element."""
        import numpy as np

        for column in self.columns:
            value = element[column.name]
            if column.encoding != "raw":
                element[column.name] = np.frombuffer(value, np.uint8)
            elif column.shape is not None:
                element[column.name] = np.asarray(value, column.dtype).reshape(column.shape)
            else:
                element[column.name] = np.asarray(value, column.dtype)
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

    def __init__(self, job: LoadingJob) -> None:
        if job.world > 1:
            os.environ["GLOBAL_RANK"] = str(job.rank)
        self.job = job
        self.work = Work(job)
        self.start()

    def start(self) -> None:
        """Make the loader; its workers start with the first epoch."""
        from litdata import StreamingDataLoader
        from torch.utils.data import DataLoader, IterableDataset

        job, dataset = self.job, self.dataset()
        count = job.workers if job.format == "chunks" else 0
        workers = {
            "num_workers": count,
            "persistent_workers": count > 0,
            "prefetch_factor": job.prefetch if count else None,
            "pin_memory": job.page_locks,
        }
        if job.scenario.bucket_boundaries:
            IterableDataset.register(Batches)
            stream: Any = Batches(dataset, job)
            self.loader = DataLoader(stream, batch_size=None, collate_fn=tensors, **workers)
        else:
            self.loader = StreamingDataLoader(
                dataset,
                batch_size=job.batch_size,
                collate_fn=self.work.collated,
                drop_last=job.drop_last,
                **workers,
            )
        self.finished = True

    def dataset(self) -> Any:
        """Return the StreamingDataset, over chunks or indexed Parquet files, or several mixed."""
        from litdata import StreamingDataset
        from litdata.streaming.item_loader import ParquetLoader

        job = self.job
        item_loader = ParquetLoader() if job.format == "indexed-parquet" else None
        if (mixture := job.scenario.mixture) is not None:
            return mixed(self.work, mixture, item_loader)
        return StreamingDataset(
            str(job.storage),
            item_loader=item_loader,
            shuffle=job.shuffle,
            seed=job.shuffle_seed(0),
            drop_last=job.drop_last,
            transform=self.work.transformed,
        )

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield batches of tensors; the library derives the epoch's order from its number."""
        if not self.finished:
            self.close()  # workers count epochs themselves, those they finish
            self.start()
        self.loader.current_epoch = epoch  # counted up at the beginning, so that its first is 1
        return self.batches(epoch)

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Yield the batches of one pass, and note that it came to its end."""
        self.work.current.value = epoch
        self.finished = False
        yield from self.loader
        self.finished = True

    def state(self) -> bytes:
        """Return the StreamingDataLoader's own state."""
        return json.dumps(self.loader.state_dict()).encode()

    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        """Load the state, and iterate over the rest of the epoch."""
        self.loader.load_state_dict(json.loads(state))
        return self.batches(epoch)

    def close(self) -> None:
        """End the workers; to drop the loader is not enough, as its iterator holds it."""
        iterator = self.loader._iterator  # noqa: SLF001 - PyTorch has no public way
        if iterator is not None:
            iterator._shutdown_workers()  # noqa: SLF001


@adapter
class LitData(Adapter):
    """`litdata.StreamingDataset` over optimised chunks."""

    slug: ClassVar = "litdata"
    name: ClassVar = "LitData"
    distribution: ClassVar = "litdata"
    imports: ClassVar = "litdata"
    homepage: ClassVar = "https://github.com/Lightning-AI/litData"
    guide: ClassVar = "https://github.com/Lightning-AI/litData#readme"
    abilities: ClassVar = frozenset(
        {
            "map",
            "shuffle",
            "seeded",
            "batch-map",
            "variable-length",
            "pack",
            "bucket",
            "mix",
            "shard",
            "checkpoint",
            "stream",
            "source:columnar",
        }
    )
    limits: ClassVar = {
        "seek": "its elements lie in chunks on disk; it has none that are computed",
        "worker-invariant": "chunks are divided among the workers, so the order depends on how "
        "many there are",
        "eager": "elements always stream from their chunks",
        "jax": "its DataLoader delivers PyTorch tensors, not JAX arrays",
        "source:memory": "elements are read from its own chunks or from Parquet files",
        "source:files": "StreamingDataset reads its own chunks or Parquet files; for plain files "
        "the library has a StreamingRawDataset, without shuffling or resuming",
        "source:tar": "elements are read from its own chunks or from Parquet files",
        "source:http": "its client for object stores refuses plain HTTP addresses",
    }
    shuffles: ClassVar = "shards"
    mixing: ClassVar = "worker draws"
    runs_in: ClassVar = ("processes",)
    formats: ClassVar = ("chunks", "indexed-parquet")
    framework: ClassVar = "torch"
    acceleration: ClassVar = TORCH
    variables: ClassVar = {"LITDATA_DISABLE_VERSION_CHECK": "1"}

    def convert(self, dataset: Dataset, directory: Path, format: str) -> None:
        """Write chunks with `optimize` and the library's serialisers, or an index of Parquet."""
        from functools import partial
        from tempfile import TemporaryDirectory

        import litdata

        from skymark.suites.loading.dataset.parquet import write_parquet

        if format not in self.formats:
            super().convert(dataset, directory, format)
        if format == "indexed-parquet":
            write_parquet(dataset, directory)
            litdata.index_parquet_dataset(str(directory), num_workers=1)
            return
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

    def execution(self, job: LoadingJob) -> Execution:
        """Return its processes; Parquet files are read in the calling thread."""
        return super().execution(job) if job.format == "chunks" else Execution()

    def open(self, job: LoadingJob) -> Loader:
        """Return the StreamingDataLoader."""
        return LitDataLoader(job)


def stored(dataset: Dataset, index: int) -> Element:
    """Return an element for storage: encoded media as bytes, scalars as numbers."""
    element = dataset[index]
    for column in dataset.columns:
        if column.encoding != "raw":
            element[column.name] = element[column.name].tobytes()
        elif column.shape == ():
            element[column.name] = element[column.name].item()
    return element
