"""MosaicML Streaming: MDS shards, a StreamingDataset and its StreamingDataLoader.

`workers` are processes. The shuffle is the library's own, `py1e`. The library keeps shards of an
object store on the local disk. Each epoch over HTTP therefore begins with an empty cache and a new
loader, like the first epoch of a training.
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

from skymark.suites.loading.adapter import Loader, LoadingJob, adapter, all_but
from skymark.suites.loading.adapters.pytorch import (
    NO_JAX,
    InDataLoader,
    SharedWork,
    bucket_loader,
    worker_settings,
)
from skymark.suites.loading.storage_formats import BUCKET

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Column, Dataset, Element
    from skymark.suites.loading.work import Batch


@cache
def elements_class() -> Any:
    """Make the StreamingDataset of transformed elements; the library is not imported before."""
    from streaming import StreamingDataset

    class Elements(StreamingDataset):  # type: ignore[misc]
        """A StreamingDataset that transforms elements when it reads them."""

        def __init__(self, work: SharedWork, local: str, remote: str | None) -> None:
            self.work = work
            job = work.job
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
            return self.work.transformed(element)

    return Elements


class MosaicLoader(Loader):
    """One StreamingDataLoader whose workers live on from epoch to epoch."""

    def __init__(self, job: LoadingJob) -> None:
        self.job = job
        self.work = SharedWork(job)
        self.cache: TemporaryDirectory[str] | None = None
        if job.format == "http-mds":
            use_object_store()
        self.start()

    def start(self) -> None:
        """Open the dataset and its loader; workers start with the first epoch."""
        from streaming import StreamingDataLoader
        from torch.utils.data import DataLoader

        job = self.job
        if job.format == "http-mds":
            self.cache = TemporaryDirectory()
            self.dataset = elements_class()(self.work, self.cache.name, f"s3://{BUCKET}")
        else:
            self.dataset = elements_class()(self.work, str(job.storage), None)
        if job.scenario.bucket_boundaries:
            self.loader = bucket_loader(DataLoader, self.dataset, job, **worker_settings(job))
        else:
            self.loader = StreamingDataLoader(
                self.dataset,
                batch_size=job.batch_size,
                collate_fn=self.work.collated,
                drop_last=job.drop_last,
                **worker_settings(job),
            )

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Iterate over batches of tensors, in an order that the library derives from the number."""
        if self.cache is not None and any(Path(self.cache.name).rglob("*.mds")):
            self.close()
            self.start()
        self.work.epoch = self.dataset.next_epoch = epoch
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
    """Return the MDS encoding of a column; encoded media stay unchanged."""
    import numpy as np

    if column.encoding != "raw":
        return "bytes"
    name = np.dtype(column.dtype).name
    if column.shape is None:
        return f"ndarray:{name}"
    return f"ndarray:{name}:{','.join(map(str, column.shape))}" if column.shape else name


@adapter
class Mosaic(InDataLoader):
    """`streaming.StreamingDataset` over MDS shards."""

    slug: ClassVar = "mosaic"
    name: ClassVar = "MosaicML Streaming"
    distribution: ClassVar = "mosaicml-streaming"
    imports: ClassVar = "streaming"
    requirements: ClassVar = ("mosaicml-streaming",)
    homepage: ClassVar = "https://docs.mosaicml.com/projects/streaming"
    guide: ClassVar = (
        "https://docs.mosaicml.com/projects/streaming/en/stable/getting_started/main_concepts.html"
    )
    loader: ClassVar = MosaicLoader
    abilities: ClassVar = all_but(
        {
            **NO_JAX,
            "mix": "it shuffles an epoch's repeats together: elements come again before others",
            "seek": "it makes an array of all sample ids for each epoch, 8 bytes for each",
            "shard": "it repeats elements until every rank has as many, so not each comes once",
            "eager": "elements always stream from their shards",
        }
    )
    shuffles: ClassVar = "shards"
    formats: ClassVar = ("mds", "http-mds")

    def convert(self, dataset: Dataset, directory: Path, format: str) -> None:
        """Write MDS shards with the library's own encodings."""
        from streaming import MDSWriter

        columns = {"index": "int", **{c.name: encoding(c) for c in dataset.columns}}
        out = directory / BUCKET if format == "http-mds" else directory
        with MDSWriter(out=str(out), columns=columns) as writer:
            for element in dataset:
                for column in dataset.columns:
                    if column.encoding != "raw":
                        element[column.name] = element[column.name].tobytes()
                writer.write(element)
