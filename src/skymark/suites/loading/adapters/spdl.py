"""SPDL: a pipeline whose stages run concurrently in threads, or such pipelines in processes.

Its pipelines have the shape of SPDL's own loaders. A source yields the indices of a batch. A stage
fetches, transforms and collates whole batches concurrently. A sink holds ready batches.
`output_order` is ``input``, because the default is order of completion. Pipelines and processes
serve all epochs; a source waits for the next epoch.

Its guide has three execution models, for ``--set spdl_execution=``:

- ``threads``: `workers` threads of this process (at least one: SPDL always works in the background)
  and a sink of `prefetch` batches. Used where the work is small.
- ``process``: the same pipeline in a process of its own (`run_pipeline_in_subprocess`). The
  loader's Python then does not hold up the training loop.
- ``processes``: `workers` processes with a pipeline of one thread and `prefetch` batches each. Used
  where Python's work holds the interpreter's lock. The guide's region of worker processes
  (`ProcessPoolExecutorConfig`) keeps no order and pickles every batch. Here each process makes
  every `workers`-th batch, and the loader takes batches in turn.

Batches of processes come in SPDL's segments of shared memory (`SharedMemorySegmentPool`), unless
their fields vary in length. Pillow decodes images here; the adapter `spdl-io` has SPDL's own
decoders.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, cycle
from multiprocessing import set_forkserver_preload, set_start_method
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.adapter import (
    Adapter,
    Execution,
    Loader,
    LoadingJob,
    adapter,
    all_but,
)
from skymark.suites.loading.devices import TORCH_ON_GPUS
from skymark.suites.loading.element_streams import batches_of

if TYPE_CHECKING:
    from skymark.model.machine import Platform
    from skymark.suites.loading.dataset.canonical import Element
    from skymark.suites.loading.delivery.framework import Framework
    from skymark.suites.loading.work import Batch

    Work = tuple[int, list[int]]
    """An epoch and the indices of a batch."""

EXECUTIONS = ("processes", "process", "threads")
"""SPDL's execution models MP, MTP and MT."""
HELD = 4
"""Batches in shared memory besides a process's queue: one in the making, three for the consumer. A
consumer that keeps more of them waits for the next one until SPDL gives up, after a minute."""
PADDING_BYTES = 1 << 12
"""Of a segment of shared memory: each field begins at a multiple of 64 bytes."""
END = object()
"""In place of a result: an iterator has no more."""


class EpochSource:
    """A source that waits for an epoch and yields its share of this rank's batches of indices.

    Args:
        job: tells order and batch size.
        share: which batches it yields: every `of`-th one, from this one on.
        of: sources among which the batches are dealt out.
    """

    def __init__(self, job: LoadingJob, share: int = 0, of: int = 1) -> None:
        from multiprocessing import SimpleQueue

        self.job = job
        self.share, self.of = share, of
        self.asked: SimpleQueue[int | None] = SimpleQueue()

    def __iter__(self) -> Iterator[Work]:
        if (epoch := self.asked.get()) is not None:
            for indices in self.job.index_batches(epoch)[self.share :: self.of]:
                yield epoch, indices


class BatchStage:
    """The pipeline's stage: from indices to a batch, or to the elements of one to be bucketed."""

    def __init__(self, job: LoadingJob) -> None:
        self.job = job
        self.reader = job.reader()

    def __call__(self, work: Work) -> Batch | list[Element]:
        epoch, indices = work
        elements = [self.job.transform(self.reader[index], epoch) for index in indices]
        if self.job.scenario.bucket_boundaries:
            return elements
        return self.job.mix(self.job.collate(elements), epoch)

    def largest_bytes(self) -> int:
        """Return the size of a whole batch, before or after what is done to it as a whole."""
        element = self.job.transform(self.reader[0], 0)
        batch = self.job.collate([element] * self.job.batch_size)
        mixed = self.job.mix(batch, 0)
        return max(sum(int(value.nbytes) for value in one.values()) for one in (batch, mixed))


class SpdlLoader(Loader):
    """Pipelines that live on from epoch to epoch, in this process or others."""

    def __init__(self, job: LoadingJob, stage: BatchStage, model: str) -> None:
        self.job = job
        self.stage = stage
        self.model = model
        self.sources: list[EpochSource] = []
        self.pipeline: Any = None
        self.passes: list[Callable[[], Iterator[Any]]] = []
        """Each starts an epoch of a pipeline."""
        self.finished = True

    def configured(self, source: EpochSource, threads: int, ahead: int) -> Any:
        """Return the builder of a pipeline over a source, with a sink of `ahead` batches."""
        from spdl.pipeline import PipelineBuilder

        return (
            PipelineBuilder()
            .add_source(source, continuous=self.model == "threads")
            .pipe(self.stage, concurrency=threads, output_order="input")
            .add_sink(ahead)
        )

    def start(self) -> None:
        """Build and start the pipelines.

        `max_failures=0` ends them at the first error; by default SPDL logs what failed and goes on.
        """
        workers = max(1, self.job.workers)
        processes = workers if self.model == "processes" else 1
        if self.job.page_locks:
            # SPDL's copies leave CUDA tensors in thread-local memory. A process that is forked
            # after that frees them, which CUDA forbids there, and ends.
            set_forkserver_preload(["spdl.pipeline", __name__])
            set_start_method("forkserver", force=True)
        self.sources = [EpochSource(self.job, share, processes) for share in range(processes)]
        threads = workers // processes
        if self.model == "threads":
            builder = self.configured(self.sources[0], threads, self.job.prefetch)
            self.pipeline = builder.build(num_threads=threads, max_failures=0)
            self.pipeline.start()
            self.passes = [self.pipeline.get_iterator]
        else:
            self.passes = [self.in_process(source, threads) for source in self.sources]

    def in_process(self, source: EpochSource, threads: int) -> Callable[[], Iterator[Any]]:
        """Start a process with a pipeline."""
        from spdl.pipeline import SharedMemorySegmentPool, run_pipeline_in_subprocess

        job, arena = self.job, None
        if not job.scenario.variable_length:
            # Where a batch's shape is drawn, the first may be small; unused memory costs nothing.
            size = 8 * self.stage.largest_bytes() + PADDING_BYTES
            arena = SharedMemorySegmentPool(size, job.prefetch + HELD)
        batches = run_pipeline_in_subprocess(
            self.configured(source, threads, 1).get_config(),
            num_threads=threads,
            max_failures=0,
            buffer_size=job.prefetch,
            arena=arena,
        )
        return partial(iter, batches)

    def results(self, epoch: int) -> Iterator[Any]:
        """Yield the stages' results of one epoch, of each pipeline in turn."""
        if not self.finished:
            self.close()
        if not self.passes:
            self.start()
        self.finished = False
        for source in self.sources:
            source.asked.put(epoch)
        yield from in_turn([start() for start in self.passes])
        self.finished = True

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield batches of NumPy arrays; length buckets are filled from the stream of elements."""
        results = self.results(epoch)
        if not self.job.scenario.bucket_boundaries:
            return results
        return batches_of(chain.from_iterable(results), self.job)

    def close(self) -> None:
        """Stop the pipelines, and release their sources."""
        if self.pipeline is not None:
            self.pipeline.stop()
            self.pipeline = None
        for source in self.sources:
            source.asked.put(None)
        self.passes, self.sources = [], []  # SPDL ends a process when nothing holds its iterable
        self.finished = True


def next_or_end(iterator: Iterator[Any]) -> Any:
    """Return the next result of an iterator, or `END`."""
    return next(iterator, END)


def in_turn(iterators: list[Iterator[Any]]) -> Iterator[Any]:
    """Yield one result of each iterator in turn, until all have ended.

    The first request to an iterator over a process starts that process's epoch. So all first
    results are requested at once.
    """
    if len(iterators) == 1:
        yield from iterators[0]
        return
    with ThreadPoolExecutor(len(iterators)) as pool:
        first = pool.map(next_or_end, iterators)
        for result in chain(first, map(next_or_end, cycle(iterators))):
            if result is END:
                break
            yield result
    for iterator in iterators:  # those after it had as many as the others, and end, too
        next(iterator, None)


@adapter
class Spdl(Adapter):
    """`spdl.pipeline.PipelineBuilder` with its thread pool, or in processes."""

    slug: ClassVar = "spdl"
    name: ClassVar = "SPDL"
    distribution: ClassVar = "spdl"
    imports: ClassVar = "spdl.pipeline"
    requirements: ClassVar = ("spdl", "pyarrow")
    homepage: ClassVar = "https://facebookresearch.github.io/spdl"
    guide: ClassVar = (
        "https://facebookresearch.github.io/spdl/0.8.0/getting_started/execution_models.html"
    )
    abilities: ClassVar = all_but(
        {
            "mix": "its weighted sampler draws with replacement: elements come again before others",
            "seek": "its pipeline takes the order as a list of all indices, 8 bytes for each",
            "checkpoint": "SPDL pipelines have no state to save; their users keep the position",
            "jax": "SPDL delivers host arrays and does not know JAX's device meshes",
        }
    )
    runs_in: ClassVar = ("threads", "processes")
    options: ClassVar = {
        "spdl_execution": "`threads`, `process` (threads in a process of their own) or "
        "`processes`; else what the scenario's work asks for"
    }
    version: ClassVar = 2
    formats: ClassVar = ("files", "canonical", "memory", "tar", "parquet", "http")
    framework: ClassVar = "torch"
    framework_platforms: ClassVar = frozenset({"gpu"})
    acceleration: ClassVar = TORCH_ON_GPUS

    @classmethod
    def code(cls, workers: int, prefetch: int, *, in_threads: bool) -> str:
        """Return the pipeline of one process with its threads."""
        if not in_threads:
            return ""
        threads = max(1, workers)
        return (
            f"PipelineBuilder().add_source(source).pipe(work, concurrency={threads})"
            f".add_sink({prefetch}).build(num_threads={threads})"
        )

    def execution(self, job: LoadingJob) -> Execution:
        """Return the kind of workers from an option, else the kind that suits the work."""
        usual = super().execution(job).model
        model = job.choice("spdl_execution", usual, *EXECUTIONS)
        count = max(1, job.workers)
        if model == "processes":
            return Execution("processes", count)
        note = "in a process of their own" if model == "process" else ""
        return Execution("threads", count, note)

    def open(self, job: LoadingJob) -> Loader:
        """Return the loader; pipelines start with the first epoch."""
        execution = self.execution(job)
        model = "process" if execution.note else str(execution.model)
        return SpdlLoader(job, self.stage(job), model)

    def stage(self, job: LoadingJob) -> BatchStage:
        """Return the work of the pipelines' stage."""
        return BatchStage(job)

    def delivering(self, loader: Loader, job: LoadingJob) -> Loader:
        """Return a loader whose batches SPDL's own function copies to a GPU."""
        from skymark.suites.loading.delivery.loader import DeliveringLoader

        start = partial(torch_with_spdl, job.platform, job.rank)
        return DeliveringLoader(loader, start, ahead=job.copies_ahead)


def torch_with_spdl(platform: Platform, number: int) -> Framework:
    """Return a device of PyTorch with `spdl.io.transfer_tensor_h2d`, which has a stream per thread.

    SPDL copies a batch ahead by calling it in a background thread. On the CPU it is not called.
    """
    from spdl.io import transfer_tensor_h2d

    from skymark.suites.loading.delivery.on_torch import Torch

    framework = Torch(platform, number, transfer_tensor_h2d)
    if framework.cuda:
        os.environ["LOCAL_RANK"] = str(framework.device.index)  # tells SPDL the device
    return framework
