"""SPDL: a pipeline whose stages run concurrently in threads.

The shape is that of SPDL's own loaders: a source that yields the indices of a batch, a stage that
fetches, transforms and collates whole batches concurrently, and a sink that holds ready batches.
`workers` is the number of threads (at least one: SPDL always works in the background), `prefetch`
the size of the sink. `output_order` is ``input``, because the default is order of completion.
One pipeline serves all epochs (``continuous=True``); its source waits until an epoch is asked for.

Images are decoded by Pillow in those threads, which releases the interpreter lock meanwhile. SPDL's
own decoders need the system's FFmpeg libraries, which its packages do not carry.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from itertools import chain
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.acceleration import TORCH_FROM_HOST
from skymark.suites.loading.adapter import Adapter, Loader, LoadingJob, adapter
from skymark.suites.loading.bucketing import batches_of

if TYPE_CHECKING:
    from skymark.model.platform import Platform
    from skymark.suites.loading.dataset.canonical import Element
    from skymark.suites.loading.delivery.framework import Framework
    from skymark.suites.loading.scenario import Batch

    Work = tuple[int, list[int]]
    """An epoch and the indices of one of its batches."""


class EpochSource:
    """A source that waits for an epoch and yields this rank's batches of indices in its order."""

    def __init__(self, job: LoadingJob) -> None:
        self.job = job
        self.asked: SimpleQueue[int | None] = SimpleQueue()

    def __iter__(self) -> Iterator[Work]:
        import numpy as np

        if (epoch := self.asked.get()) is None:
            return
        job = self.job
        order = np.arange(len(job.dataset))
        if job.shuffle:
            np.random.default_rng(job.shuffle_seed(epoch)).shuffle(order)
        mine = order[job.rank :: job.world].tolist()
        for start in range(0, len(mine), job.batch_size):
            indices = mine[start : start + job.batch_size]
            if len(indices) == job.batch_size or not job.drop_last:
                yield epoch, indices


class SpdlLoader(Loader):
    """One `Pipeline` that lives on from epoch to epoch."""

    def __init__(self, job: LoadingJob) -> None:
        self.job = job
        self.reader = job.reader()
        self.source = EpochSource(job)
        self.pipeline: Any = None
        self.finished = True

    def elements(self, work: Work) -> list[Element]:
        """Fetch and transform the elements of a batch."""
        epoch, indices = work
        return [self.job.transform(self.reader[index], epoch) for index in indices]

    def batch(self, work: Work) -> Batch:
        """Fetch, transform and collate a batch."""
        return self.job.mix(self.job.collate(self.elements(work)), work[0])

    def start(self) -> None:
        """Build and start the pipeline.

        `max_failures=0` ends it at the first error; by default SPDL logs what failed and goes on.
        """
        from spdl.pipeline import PipelineBuilder

        bucketed = bool(self.job.scenario.bucket_boundaries)
        threads = max(1, self.job.workers)
        self.pipeline = (
            PipelineBuilder()
            .add_source(self.source, continuous=True)
            .pipe(
                self.elements if bucketed else self.batch,
                concurrency=threads,
                output_order="input",
            )
            .add_sink(self.job.prefetch)
            .build(num_threads=threads, max_failures=0)
        )
        self.pipeline.start()

    def results(self, epoch: int) -> Iterator[Any]:
        """Yield the stage's results of one epoch."""
        if not self.finished:
            self.close()
        if self.pipeline is None:
            self.start()
        self.finished = False
        self.source.asked.put(epoch)
        yield from self.pipeline.get_iterator()
        self.finished = True

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield batches of NumPy arrays; length buckets are filled from the stream of elements."""
        results = self.results(epoch)
        if not self.job.scenario.bucket_boundaries:
            return results
        return batches_of(chain.from_iterable(results), self.job)

    def close(self) -> None:
        """Stop the pipeline and release its source's thread."""
        if self.pipeline is not None:
            self.pipeline.stop()
            self.source.asked.put(None)
            self.pipeline = None
            self.source = EpochSource(self.job)
            self.finished = True


@adapter
class Spdl(Adapter):
    """`spdl.pipeline.PipelineBuilder` with its thread pool."""

    slug: ClassVar = "spdl"
    name: ClassVar = "SPDL"
    distribution: ClassVar = "spdl"
    imports: ClassVar = "spdl.pipeline"
    homepage: ClassVar = "https://facebookresearch.github.io/spdl"
    guide: ClassVar = "https://facebookresearch.github.io/spdl/latest/getting_started/index.html"
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
            "shard",
            "stream",
            "eager",
            "source:memory",
            "source:files",
            "source:tar",
            "source:columnar",
            "source:http",
        }
    )
    limits: ClassVar = {
        "mix": "its weighted sampler draws with replacement: elements come again before others",
        "seek": "its pipeline is told the order, a permutation of all indices, 8 bytes for each",
        "checkpoint": "SPDL pipelines have no state to save; their users keep the position",
        "jax": "SPDL delivers host arrays and does not know JAX's device meshes",
    }
    formats: ClassVar = ("files", "canonical", "memory", "tar", "parquet", "http")
    framework: ClassVar = "torch"
    acceleration: ClassVar = TORCH_FROM_HOST

    def open(self, job: LoadingJob) -> Loader:
        """Return the loader; a pipeline starts with each epoch."""
        return SpdlLoader(job)

    def delivering(self, loader: Loader, job: LoadingJob) -> Loader:
        """Return a loader whose batches SPDL's own function copies to a GPU."""
        from skymark.suites.loading.delivery.loader import DeliveringLoader

        start = partial(torch_with_spdl, job.platform, job.rank)
        return DeliveringLoader(loader, start, ahead=job.copies_ahead)


def torch_with_spdl(platform: Platform, number: int) -> Framework:
    """Return a device of PyTorch with `spdl.io.transfer_tensor_h2d`, which has a stream per thread.

    Called in a thread in the background, as it is here, it is SPDL's way to copy a batch ahead. On
    the CPU it is not called.
    """
    from spdl.io import transfer_tensor_h2d

    from skymark.suites.loading.delivery.on_torch import Torch

    framework = Torch(platform, number, transfer_tensor_h2d)
    if framework.cuda:
        os.environ["LOCAL_RANK"] = str(framework.device.index)  # tells SPDL the device
    return framework
