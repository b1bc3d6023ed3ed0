"""Google Grain: a MapDataset over a random-access source, read ahead by processes or threads.

Each stage of the work is a map of its own. Work that holds Python's lock runs in the processes of
`mp_prefetch`, as Grain recommends. There are `workers` of them. They live from epoch to epoch,
because a start takes more than a second. Each fills a buffer of `prefetch` batches, and writes
large fields into shared memory. Small work runs in the threads of `ReadOptions`, because sending a
batch would cost more than making it. ``--set grain_processes=N`` asks for N processes, or with 0
for threads. Without `workers`, the calling thread makes the batches.

Grain's own search (`grain.experimental.pick_performance_config`) takes the most processes that you
allow, or fewer for a budget of memory. Here `workers` allows them, so there is no search. Grain's
`autotune` is not implemented (release 0.2.18).
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.model.errors import UsageError
from skymark.suites.loading.adapter import (
    Adapter,
    Execution,
    Loader,
    LoadingJob,
    adapter,
    all_but,
)
from skymark.suites.loading.devices import JAX
from skymark.suites.loading.element_streams import batches_of
from skymark.suites.loading.scenario import Scenario

if TYPE_CHECKING:
    from pathlib import Path

    from skymark.suites.loading.dataset.canonical import Dataset, Element
    from skymark.suites.loading.work import Batch, Mixture, Stage

RECORDS_PER_FILE = 10_000
SHARED_BYTES = 1 << 16
"""A field of a batch from this size on is stacked in shared memory; of less, a copy is cheaper."""


def apply(
    job: LoadingJob, stage: Stage, per_epoch: int, position: int, element: Element
) -> Element:
    """Apply one stage to the element at a position of the endless, repeated dataset."""
    parameters = job.scenario.parameters(position // per_epoch, int(element["index"]))
    return stage.apply(element, parameters)


def mix(job: LoadingJob, per_epoch: int, position: int, batch: Batch) -> Batch:
    """Apply the batch-level work to the batch at a position of the endless dataset."""
    return job.mix(batch, position // per_epoch)


def mixed(elements: Any, mixture: Mixture, seed: int) -> Any:
    """Return sources of a dataset, each shuffled in every pass, mixed by an exact schedule."""
    import grain

    sources = [
        elements[begin:end].shuffle(seed=seed + number).repeat()
        for number, (begin, end) in enumerate(mixture.bounds)
    ]
    return grain.MapDataset.mix(sources, mixture.weights)


def plain(batch: Batch) -> Batch:
    """Return a batch that a process has sent as arrays of NumPy's own, in the same memory."""
    import numpy as np

    return {name: np.asarray(value) for name, value in batch.items()}


class Collate:
    """The scenario's collation; in a worker process it stacks large fields in shared memory.

    Grain calls `enable_shared_memory_output` there. It copies fields in ordinary memory.
    """

    def __init__(self, job: LoadingJob) -> None:
        self.job = job
        self.shares = False

    def enable_shared_memory_output(self) -> None:
        """Stack in shared memory from now on, unless the scenario collates in its own way."""
        self.shares = type(self.job.scenario).collate is Scenario.collate

    def __call__(self, elements: list[Element]) -> Batch:
        if not self.shares:
            return self.job.collate(elements)
        return {name: stacked([element[name] for element in elements]) for name in elements[0]}


def stacked(values: list[Any]) -> Any:
    """Stack equal shapes, in shared memory where that is worth it."""
    import numpy as np
    from grain.multiprocessing import SharedMemoryArray

    first = np.asarray(values[0])
    if first.nbytes * len(values) < SHARED_BYTES:
        return np.stack(values)
    return np.stack(values, out=SharedMemoryArray((len(values), *first.shape), first.dtype))


def processes_of(job: LoadingJob) -> int | None:
    """Return the number of processes that an option asks for; None where none does.

    Raises:
        UsageError: it is no number, or negative.
    """
    asked = job.options.get("grain_processes")
    if asked is None or (type(asked) is int and asked >= 0):
        return asked
    raise UsageError(
        f"grain_processes={asked!r} is no number of processes; give one, or 0 for threads"
    )


def moved(state: dict[str, Any], place: int) -> dict[str, Any]:
    """Return the state of processes that take turns, at a position before a batch.

    With it, the processes continue after an epoch that ended early; Grain's `set_next_index` cannot
    move several processes (release 0.2.18).
    """
    count = len(state["iterators_in_use_states"])
    shares = [{"next_index": len(range(number, place, count))} for number in range(count)]
    turn = {"next_index_in_cycle": place % count, "iterators_in_use_states": shares}
    return {**state, **turn}


class GrainLoader(Loader):
    """One endless MapDataset, iterated epoch by epoch."""

    def __init__(self, job: LoadingJob, execution: Execution) -> None:
        import grain

        self.job = job
        self.processes = execution.workers if execution.model == "processes" else 0
        self.bucketed = bool(job.scenario.bucket_boundaries)
        self.iterator: Any = None
        self.first_epoch = self.begun = self.delivered = 0
        self.source: Any = None
        if job.format == "arrayrecord":
            self.source = grain.sources.ArrayRecordDataSource(sorted(job.storage.glob("*")))
            dataset = grain.MapDataset.source(self.source)
        else:
            dataset = grain.MapDataset.source(job.reader())
        self.mixture = job.scenario.mixture
        if self.mixture is not None:
            dataset = mixed(dataset, self.mixture, job.shuffle_seed(0))
        elif job.shuffle:
            dataset = dataset.shuffle(seed=job.shuffle_seed(0))
        if job.world > 1:
            dataset = dataset[job.rank :: job.world]
        if job.format == "arrayrecord":
            dataset = dataset.map(pickle.loads)
        self.elements = len(dataset) if self.mixture is None else self.mixture.elements
        for stage in job.scenario.stages():
            dataset = dataset.map_with_index(partial(apply, job, stage, self.elements))
        self.steps, self.dataset = -(-self.elements // job.batch_size), dataset
        if self.mixture is None:
            self.repeat()

    def repeat(self) -> None:
        """Make batches of an epoch, and repeat them; of a mixture, `of_stream` makes them."""
        job = self.job
        if not self.bucketed:
            self.dataset = self.batched(self.dataset)
            if job.scenario.mixes:
                mixing = partial(mix, job, len(self.dataset))
                self.dataset = self.dataset.map_with_index(mixing)
        self.steps = len(self.dataset)
        self.dataset = self.dataset.repeat()

    def batched(self, dataset: Any) -> Any:
        """Return the dataset in batches."""
        job = self.job
        return dataset.batch(job.batch_size, drop_remainder=job.drop_last, batch_fn=Collate(job))

    def start(self, epoch: int, skip: int = 0) -> Any:
        """Return Grain's iterator from a batch of an epoch on; with processes it is endless."""
        import grain

        if self.iterator is not None:
            place = (epoch - self.first_epoch) * self.steps + skip
            if self.processes and place >= self.begun:
                if self.delivered != place:
                    self.iterator.set_state(moved(self.iterator.get_state(), place - self.begun))
                    self.delivered = place
                return self.iterator
            self.iterator.close()
        job, begin = self.job, epoch * self.steps + skip
        end = None if self.processes else (epoch + 1) * self.steps
        part = self.dataset[begin:end] if self.mixture is None else self.of_stream(epoch)
        threads = 0 if self.processes else job.workers
        ahead = job.prefetch * (job.batch_size if self.bucketed else 1)
        dataset = part.to_iter_dataset(
            grain.ReadOptions(num_threads=threads, prefetch_buffer_size=threads * ahead)
        )
        if self.processes:
            from absl import flags

            flags.FLAGS.mark_as_parsed()  # Grain reads flags of its own, which `app.run` parses
            dataset = dataset.mp_prefetch(
                grain.MultiprocessingOptions(
                    num_workers=self.processes, per_worker_buffer_size=ahead
                )
            )
        self.first_epoch, self.begun, self.delivered = epoch, skip, skip
        self.iterator = iter(dataset)
        return self.iterator

    def of_stream(self, epoch: int) -> Any:
        """Return an epoch of the mixture, in batches; with processes, all from there on."""
        end = None if self.processes else (epoch + 1) * self.elements
        return self.batched(self.dataset[epoch * self.elements : end])

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield batches of NumPy arrays."""
        steps = self.count(islice(self.start(epoch), self.steps))
        return batches_of(steps, self.job) if self.bucketed else steps

    def seek(self, epoch: int, batches: int) -> Iterator[Batch]:
        """Slice the dataset, whose shuffle computes each index."""
        return self.count(islice(self.start(epoch, batches), self.steps - batches))

    def count(self, steps: Iterator[Any]) -> Iterator[Any]:
        """Count the batches delivered; batches of processes come in Grain's own class."""
        for step in steps:
            self.delivered += 1
            yield plain(step) if self.processes else step

    def state(self) -> bytes:
        """Return Grain's own iterator state, with the epoch it counts from."""
        state = [self.first_epoch, self.delivered, self.iterator.get_state()]
        return json.dumps(state).encode()

    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        """Set Grain's iterator to the saved state."""
        first_epoch, delivered, position = json.loads(state)
        iterator = self.start(first_epoch)
        iterator.set_state(position)
        self.delivered = delivered
        end = (epoch - first_epoch + 1) * self.steps
        return self.count(islice(iterator, end - delivered))

    def close(self) -> None:
        """Stop threads and processes, and close the files."""
        if self.iterator is not None:
            self.iterator.close()
        if self.source is not None:
            self.source.__exit__(None, None, None)


@adapter
class Grain(Adapter):
    """`grain.MapDataset` over ArrayRecord files, or over any random-access source."""

    slug: ClassVar = "grain"
    name: ClassVar = "Google Grain"
    distribution: ClassVar = "grain"
    imports: ClassVar = "grain"
    requirements: ClassVar = ("grain", "array_record", "jax", "pyarrow")
    homepage: ClassVar = "https://google-grain.readthedocs.io"
    guide: ClassVar = (
        "https://google-grain.readthedocs.io/en/latest/tutorials/dataset_basic_tutorial.html"
    )
    abilities: ClassVar = all_but({})
    runs_in: ClassVar = ("threads", "processes")
    formats: ClassVar = (
        "arrayrecord",
        "canonical",
        "memory",
        "computed",
        "files",
        "tar",
        "parquet",
        "http",
    )
    media_formats: ClassVar = frozenset({"arrayrecord", "files"})
    mixing: ClassVar = "schedule"
    framework: ClassVar = "jax"
    acceleration: ClassVar = JAX
    options: ClassVar = {
        "grain_processes": "worker processes (`mp_prefetch`), 0 for threads; else as many as "
        "`workers` where Python's work holds the lock"
    }
    version: ClassVar = 2
    variables: ClassVar = {"ENABLE_PYGRAIN_PROMETHEUS_TELEMETRY": "false"}

    def convert(self, dataset: Dataset, directory: Path, format: str) -> None:
        """Write ArrayRecord files of pickled elements, in groups of one for random access."""
        del format
        import numpy as np
        from array_record.python.array_record_module import ArrayRecordWriter

        for start in range(0, len(dataset), RECORDS_PER_FILE):
            name = f"{start // RECORDS_PER_FILE:05d}.array_record"
            writer = ArrayRecordWriter(str(directory / name), "group_size:1")
            for index in range(start, min(start + RECORDS_PER_FILE, len(dataset))):
                element = {k: np.array(v) for k, v in dataset[index].items() if k != "index"}
                writer.write(pickle.dumps({"index": index, **element}))
            writer.close()

    @classmethod
    def code(cls, workers: int, prefetch: int, *, in_threads: bool) -> str:
        """Return the options of a dataset that reads in threads or in processes."""
        if in_threads or not workers:
            ahead = workers * prefetch
            read = f"grain.ReadOptions(num_threads={workers}, prefetch_buffer_size={ahead})"
            return f"dataset.to_iter_dataset({read})"
        return (
            "dataset.to_iter_dataset(grain.ReadOptions(num_threads=0))"
            f".mp_prefetch(grain.MultiprocessingOptions(num_workers={workers}, "
            f"per_worker_buffer_size={prefetch}))"
        )

    def execution(self, job: LoadingJob) -> Execution:
        """Return the processes that an option asks for, else those or the threads of the work."""
        if asked := processes_of(job):
            return Execution("processes", asked)
        return super().execution(job) if asked is None else Execution("threads", job.workers)

    def open(self, job: LoadingJob) -> Loader:
        """Return the dataset."""
        return GrainLoader(job, self.execution(job))
