"""LitData: chunks written by `optimize`, a StreamingDataset and its StreamingDataLoader.

`workers` are processes. The library shuffles chunks, and elements within them. Parquet files are
read in the calling process, because Polars, which reads them, has threads and cannot be forked.
Spawned workers would take seconds to start.

A `CombinedStreamingDataset` mixes sources. Each worker mixes by itself, from a share of every
source, until a source ends. Here the source then begins again, as in the library's cycling
`ParallelStreamingDataset`, and an epoch ends by the number of its elements.

Where a dataset loads a state, it keeps the number of its own epoch, which is that of a new dataset
(version 0.2.76). A state that is saved then has the wrong epoch, and a second resume repeats
elements. Training programs, too, should call `set_epoch` before `load_state_dict`, as here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache, partial
from itertools import islice
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.adapter import Execution, Loader, LoadingJob, adapter, all_but
from skymark.suites.loading.adapters.pytorch import (
    OF_STREAMS,
    InDataLoader,
    SharedWork,
    bucket_loader,
    end_workers,
    worker_settings,
    worker_share,
)

if TYPE_CHECKING:
    from pathlib import Path

    from skymark.suites.loading.dataset.canonical import Dataset, Element
    from skymark.suites.loading.work import Batch, Mixture

CHUNK_BYTES = 64 * 2**20
"""The size that the library recommends."""
CHUNKS = 32
"""Chunks of a dataset that is small, so that workers need not share one."""
PASSES = 1000
"""Numbers of passes that an epoch has room for; the library shuffles each pass by its number."""


class StoredWork(SharedWork):
    """The scenario's work on stored elements."""

    def transformed(self, element: Element) -> Element:
        """Transform one stored element."""
        import numpy as np

        for column in self.job.dataset.columns:
            value = element[column.name]
            if column.encoding != "raw":
                element[column.name] = np.frombuffer(value, np.uint8)
            elif column.shape is not None:
                element[column.name] = np.asarray(value, column.dtype).reshape(column.shape)
            else:
                element[column.name] = np.asarray(value, column.dtype)
        return super().transformed(element)


@cache
def classes() -> tuple[Any, Any]:
    """Make the datasets of a source and of a mixture; the library is not imported before."""
    from litdata import CombinedStreamingDataset, StreamingDataset

    class Source(StreamingDataset):  # type: ignore[misc]
        """A StreamingDataset that begins again where it ends, in another order."""

        def __next__(self) -> Any:
            try:
                return super().__next__()
            except StopIteration:
                iter(self)
                return super().__next__()

    class Mixed(CombinedStreamingDataset):  # type: ignore[misc]
        """A worker's share of the mixture in each epoch."""

        def __init__(self, work: SharedWork, mixture: Mixture, sources: list[Any]) -> None:
            super().__init__(sources, weights=mixture.weights, iterate_over_all=False)
            self.work = work
            self.mixture = mixture

        def set_batch_size(self, batch_size: int) -> None:
            # Batches are of the mixture: workers are to share a source by element, not by batch.
            del batch_size
            super().set_batch_size(1)

        def __iter__(self) -> Iterator[Any]:
            job, mixture, epoch = self.work.job, self.mixture, self.work.epoch
            number, workers = worker_share()
            # Else all workers would draw the same sources, and those of the epoch before.
            self._seed = f"{job.shuffle_seed(epoch)} {number}"
            self.set_epoch(1 + epoch * PASSES)
            return islice(super().__iter__(), mixture.share(number, workers, job.batch_size))

    return Source, Mixed


def mixed(work: SharedWork, mixture: Mixture, item_loader: Any) -> Any:
    """Return the mixture of a dataset's sources, each a range of its elements."""
    job, (source, combined), sources = work.job, classes(), []
    for number, bounds in enumerate(mixture.bounds):
        whole = source(
            str(job.storage),
            item_loader=item_loader,
            shuffle=job.shuffle,
            seed=job.shuffle_seed(0) + number,
        )
        if job.format == "indexed-parquet":
            sort_files(whole)
        part = whole.subset(slice(*bounds))
        part.transform = work.transformed
        sources.append(part)
    return combined(work, mixture, sources)


def sort_files(dataset: Any) -> None:
    """Put Parquet files in the order of their names; they were indexed as the disk lists them."""
    files = sorted(zip(dataset.subsampled_files, dataset.region_of_interest, strict=True))
    dataset.subsampled_files = [name for name, _ in files]
    dataset.region_of_interest = [rows for _, rows in files]


class LitDataLoader(Loader):
    """One StreamingDataLoader whose workers live on from epoch to epoch."""

    def __init__(self, job: LoadingJob) -> None:
        if job.world > 1:
            os.environ["GLOBAL_RANK"] = str(job.rank)
        self.job = job
        self.work = StoredWork(job)
        self.start()

    def start(self) -> None:
        """Make the loader; its workers start with the first epoch."""
        from litdata import StreamingDataLoader
        from torch.utils.data import DataLoader

        job, dataset = self.job, self.dataset()
        settings = worker_settings(job, None if job.format == "chunks" else 0)
        if job.scenario.bucket_boundaries:
            self.loader = bucket_loader(DataLoader, dataset, job, **settings)
        else:
            self.loader = StreamingDataLoader(
                dataset,
                batch_size=job.batch_size,
                collate_fn=self.work.collated,
                drop_last=job.drop_last,
                **settings,
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
        self.work.epoch = epoch
        self.finished = False
        yield from self.loader
        self.finished = True

    def state(self) -> bytes:
        """Return the StreamingDataLoader's own state."""
        return json.dumps(self.loader.state_dict()).encode()

    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        """Load the state, and iterate over the rest of the epoch."""
        loaded = json.loads(state)
        self.loader.dataset.set_epoch(loaded["current_epoch"])
        self.loader.load_state_dict(loaded)
        return self.batches(epoch)

    def close(self) -> None:
        """End the workers; to drop the loader is not enough, as its iterator holds it."""
        end_workers(self.loader)


@adapter
class LitData(InDataLoader):
    """`litdata.StreamingDataset` over optimised chunks."""

    slug: ClassVar = "litdata"
    name: ClassVar = "LitData"
    distribution: ClassVar = "litdata"
    imports: ClassVar = "litdata"
    requirements: ClassVar = ("litdata", "polars", "pyarrow")
    homepage: ClassVar = "https://github.com/Lightning-AI/litData"
    guide: ClassVar = "https://github.com/Lightning-AI/litData#readme"
    loader: ClassVar = LitDataLoader
    abilities: ClassVar = all_but(
        {
            **OF_STREAMS,
            "worker-invariant": "chunks are divided among the workers, so the order depends on how "
            "many there are",
            "seek": "its elements lie in chunks on disk; it has none that are computed",
            "source:files": "StreamingDataset reads its own chunks or Parquet files; for plain "
            "files the library has a StreamingRawDataset, without shuffling or resuming",
            "source:http": "its client for object stores refuses plain HTTP addresses",
        }
    )
    shuffles: ClassVar = "shards"
    mixing: ClassVar = "worker draws"
    formats: ClassVar = ("chunks", "indexed-parquet")
    variables: ClassVar = {"LITDATA_DISABLE_VERSION_CHECK": "1"}

    def convert(self, dataset: Dataset, directory: Path, format: str) -> None:
        """Write chunks with `optimize` and the library's serialisers, or an index of Parquet."""
        import litdata

        from skymark.suites.loading.dataset.parquet import write_parquet

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


def stored(dataset: Dataset, index: int) -> Element:
    """Return an element for storage: encoded media as bytes, scalars as numbers."""
    element = dataset[index]
    for column in dataset.columns:
        if column.encoding != "raw":
            element[column.name] = element[column.name].tobytes()
        elif column.shape == ():
            element[column.name] = element[column.name].item()
    return element
