"""Google Grain: a MapDataset over a random-access source, read ahead by threads.

Each stage of the work is a map of its own. `workers` are the threads of Grain's `ReadOptions`,
which read, transform and collate whole batches ahead of the consumer; 0 turns them off. Worker
processes (`mp_prefetch`), which Grain recommends where Python code keeps many cores busy, are
started with ``--set grain_processes=N``: starting them takes more than a second, so they live on
from epoch to epoch, and meanwhile fill their buffers of `prefetch` batches each.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.acceleration import JAX
from skymark.suites.loading.adapter import Adapter, Loader, LoadingJob, adapter
from skymark.suites.loading.bucketing import batches_of

if TYPE_CHECKING:
    from pathlib import Path

    from skymark.model.cell import Setting
    from skymark.suites.loading.dataset.canonical import Dataset, Element
    from skymark.suites.loading.mixture import Mixture
    from skymark.suites.loading.scenario import Batch, Scenario, Stage

RECORDS_PER_FILE = 10_000


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


class GrainLoader(Loader):
    """One endless MapDataset, iterated epoch by epoch."""

    def __init__(self, job: LoadingJob) -> None:
        import grain

        self.job = job
        self.processes = int(job.options.get("grain_processes", 0))
        self.bucketed = bool(job.scenario.bucket_boundaries)
        self.iterator: Any = None
        self.first_epoch = self.delivered = 0
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
        return dataset.batch(job.batch_size, drop_remainder=job.drop_last, batch_fn=job.collate)

    def start(self, epoch: int, skip: int = 0) -> Any:
        """Return Grain's iterator from a batch of an epoch on; with processes it is endless."""
        import grain

        if self.iterator is not None:
            place = (epoch - self.first_epoch) * self.steps + skip
            if self.processes and self.delivered == place:
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
        self.first_epoch, self.delivered = epoch, skip
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
        """Count the batches delivered; those of processes come in a class of Grain's own."""
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
    homepage: ClassVar = "https://google-grain.readthedocs.io"
    guide: ClassVar = (
        "https://google-grain.readthedocs.io/en/latest/tutorials/dataset_basic_tutorial.html"
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
            "seek",
            "stream",
            "eager",
            "jax",
            "source:memory",
            "source:files",
            "source:tar",
            "source:columnar",
            "source:http",
        }
    )
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
    mixing: ClassVar = "schedule"
    framework: ClassVar = "jax"
    acceleration: ClassVar = JAX
    options: ClassVar = {
        "grain_processes": "worker processes (`mp_prefetch`) in place of threads; 0 for none"
    }
    variables: ClassVar = {"ENABLE_PYGRAIN_PROMETHEUS_TELEMETRY": "false"}

    @classmethod
    def format_for(cls, scenario: type[Scenario], axes: Mapping[str, Setting]) -> str:
        """Return ArrayRecord for encoded media; rows of numbers are mapped into memory."""
        if scenario.encoded_media or scenario.source(axes) is not None:
            return super().format_for(scenario, axes)
        return "canonical"

    def convert(self, dataset: Dataset, directory: Path, format: str) -> None:
        """Write ArrayRecord files of pickled elements, in groups of one for random access."""
        import numpy as np
        from array_record.python.array_record_module import ArrayRecordWriter

        if format != "arrayrecord":
            super().convert(dataset, directory, format)
        for start in range(0, len(dataset), RECORDS_PER_FILE):
            name = f"{start // RECORDS_PER_FILE:05d}.array_record"
            writer = ArrayRecordWriter(str(directory / name), "group_size:1")
            for index in range(start, min(start + RECORDS_PER_FILE, len(dataset))):
                element = {k: np.array(v) for k, v in dataset[index].items() if k != "index"}
                writer.write(pickle.dumps({"index": index, **element}))
            writer.close()

    def open(self, job: LoadingJob) -> Loader:
        """Return the dataset."""
        return GrainLoader(job)
