"""MosaicML Streaming: MDS shards, a StreamingDataset and its StreamingDataLoader.

Shards in an object store are kept on local disk once they are there. So that every epoch is read
over HTTP, each then begins with an empty cache and a new loader, as the first one of a training.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.adapter import Adapter, Loader, LoadingJob, adapter
from skymark.suites.loading.devices import TORCH
from skymark.suites.loading.element_streams import Batches
from skymark.suites.loading.storage_formats import BUCKET

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Column, Dataset, Element
    from skymark.suites.loading.scenario import Batch


@cache
def elements_class() -> Any:
    """Make the StreamingDataset of transformed elements; the library is not imported before."""
    from streaming import StreamingDataset

    class Elements(StreamingDataset):  # type: ignore[misc]
        """A StreamingDataset whose elements are transformed as they are read."""

        def __init__(self, job: LoadingJob, local: str, remote: str | None) -> None:
            self.job = job
            self.encoded = [c.name for c in job.dataset.columns if c.encoding != "raw"]
            super().__init__(
                local=local,
                remote=remote,
                batch_size=job.batch_size,
                shuffle=job.shuffle,
                shuffle_seed=job.shuffle_seed(0),
            )

        def __getitem__(self, at: Any) -> Element:
            import numpy as np

            element = super().__getitem__(at)
            for name in self.encoded:
                element[name] = np.frombuffer(element[name], np.uint8)
            return self.job.transform(element, self.next_epoch - 1)

    return Elements


def tensors(batch: Batch) -> dict[str, Any]:
    """Turn arrays into tensors, which travel between processes in shared memory."""
    import torch

    return {name: torch.as_tensor(value) for name, value in batch.items()}


class Collate:
    """Collation and batch-level work, in the worker."""

    def __init__(self, job: LoadingJob, dataset: Any) -> None:
        self.job = job
        self.dataset = dataset

    def __call__(self, elements: list[Element]) -> dict[str, Any]:
        job, batch = self.job, self.job.collate(elements)
        return tensors(job.mix(batch, self.dataset.next_epoch - 1) if job.scenario.mixes else batch)


class MosaicLoader(Loader):
    """One StreamingDataLoader whose workers live on from epoch to epoch."""

    def __init__(self, job: LoadingJob) -> None:
        self.job = job
        self.cache: TemporaryDirectory[str] | None = None
        if job.format == "http-mds":
            use_object_store()
        self.start()

    def start(self) -> None:
        """Open the dataset and its loader; workers start with the first epoch."""
        from streaming import StreamingDataLoader
        from torch.utils.data import DataLoader, IterableDataset

        job = self.job
        if job.format == "http-mds":
            self.cache = TemporaryDirectory()
            self.dataset = elements_class()(job, self.cache.name, f"s3://{BUCKET}")
        else:
            self.dataset = elements_class()(job, str(job.storage), None)
        workers = {
            "num_workers": job.workers,
            "persistent_workers": job.workers > 0,
            "prefetch_factor": job.prefetch if job.workers else None,
            "pin_memory": job.page_locks,
        }
        if job.scenario.bucket_boundaries:
            IterableDataset.register(Batches)
            stream: Any = Batches(self.dataset, job)
            self.loader = DataLoader(stream, batch_size=None, collate_fn=tensors, **workers)
        else:
            self.loader = StreamingDataLoader(
                self.dataset,
                batch_size=job.batch_size,
                collate_fn=Collate(job, self.dataset),
                drop_last=job.drop_last,
                **workers,
            )

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Iterate over batches of tensors, in an order that the library derives from the number."""
        if self.cache is not None and any(Path(self.cache.name).rglob("*.mds")):
            self.close()
            self.start()
        self.dataset.next_epoch = epoch
        return iter(self.loader)

    def state(self) -> bytes:
        """Return the StreamingDataLoader's own state."""
        return json.dumps(self.loader.state_dict()).encode()

    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        """Load the state, and iterate over the rest of the epoch."""
        self.loader.load_state_dict(json.loads(state))
        return self.epoch(epoch)

    def close(self) -> None:
        """Drop the loader, which ends its workers, and remove its cache and its locks."""
        del self.loader
        Path(self.dataset._shared_barrier.filelock_path).unlink(missing_ok=True)  # noqa: SLF001
        Path(self.dataset._cache_filelock_path).unlink(missing_ok=True)  # noqa: SLF001
        if self.cache is not None:
            self.cache.cleanup()


def use_object_store() -> None:
    """Point the library's S3 client, which takes any compatible store, to the cell's server."""
    from skymark.suites.loading.dataset.objects import object_url

    import_module("boto3.session")  # else every worker imports it for itself
    os.environ["S3_ENDPOINT_URL"] = object_url()
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "anyone")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "anything")


def encoding(column: Column) -> str:
    """Return the MDS encoding of a column; encoded media stay as they are."""
    import numpy as np

    if column.encoding != "raw":
        return "bytes"
    name = np.dtype(column.dtype).name
    if column.shape is None:
        return f"ndarray:{name}"
    return f"ndarray:{name}:{','.join(map(str, column.shape))}" if column.shape else name


@adapter
class Mosaic(Adapter):
    """`streaming.StreamingDataset` over MDS shards."""

    slug: ClassVar = "mosaic"
    name: ClassVar = "MosaicML Streaming"
    distribution: ClassVar = "mosaicml-streaming"
    imports: ClassVar = "streaming"
    homepage: ClassVar = "https://docs.mosaicml.com/projects/streaming"
    guide: ClassVar = (
        "https://docs.mosaicml.com/projects/streaming/en/stable/getting_started/main_concepts.html"
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
            "checkpoint",
            "stream",
            "source:http",
        }
    )
    limits: ClassVar = {
        "mix": "it shuffles an epoch's repeats together: elements come again before others",
        "seek": "it makes an array of all sample ids for each epoch, 8 bytes for each",
        "shard": "it repeats elements until every rank has as many, so not each comes once",
        "eager": "elements always stream from their shards",
        "jax": "its DataLoader delivers PyTorch tensors, not JAX arrays",
        "source:memory": "elements are read from its own MDS shards",
        "source:files": "elements are read from its own MDS shards",
        "source:tar": "elements are read from its own MDS shards, not from tar shards",
        "source:columnar": "elements are read from its own MDS shards, not from columnar files",
    }
    shuffles: ClassVar = "shards"
    runs_in: ClassVar = ("processes",)
    formats: ClassVar = ("mds", "http-mds")
    framework: ClassVar = "torch"
    acceleration: ClassVar = TORCH

    def convert(self, dataset: Dataset, directory: Path, format: str) -> None:
        """Write MDS shards with the library's own encodings."""
        from streaming import MDSWriter

        if format not in self.formats:
            super().convert(dataset, directory, format)
        columns = {"index": "int", **{c.name: encoding(c) for c in dataset.columns}}
        out = directory / BUCKET if format == "http-mds" else directory
        with MDSWriter(out=str(out), columns=columns) as writer:
            for element in dataset:
                for column in dataset.columns:
                    if column.encoding != "raw":
                        element[column.name] = element[column.name].tobytes()
                writer.write(element)

    def open(self, job: LoadingJob) -> Loader:
        """Return the StreamingDataLoader."""
        return MosaicLoader(job)
