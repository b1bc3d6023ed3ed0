"""tf.data: TFRecord files, shuffled through a buffer, mapped in parallel, prefetched.

The work of the scenarios in `native` is done by TensorFlow's operators (`operators`), on whole
batches where it is small, as TensorFlow's performance guide advises. Other work is the reference's,
called through `tf.numpy_function`, which holds Python's lock. `workers` is `num_parallel_calls` and
the size of the private thread pool; 0 maps one element after another, in the one thread that
tf.data needs. ``--set shuffle_buffer=N`` shuffles through a buffer of another size than
`SHUFFLE_BUFFER`: tf.data has no global shuffle.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.acceleration import Acceleration
from skymark.suites.loading.adapter import Adapter, Loader, LoadingJob, adapter
from skymark.suites.loading.adapters.tfdata.operators import OPERATORS

if TYPE_CHECKING:
    from skymark.suites.loading.adapters.tfdata.operators import Tensors
    from skymark.suites.loading.dataset.canonical import Array, Dataset, Element
    from skymark.suites.loading.dataset.reader import Reader
    from skymark.suites.loading.scenario import Batch

HOST = "CPU:0"
SHUFFLE_BUFFER = 10_000
FILES_AT_ONCE = 4
"""Files read in turns. Fixed, because the order of records depends on it."""


class TfDataLoader(Loader):
    """One dataset graph for all epochs; an epoch's seed and parameters are variables."""

    def __init__(self, job: LoadingJob) -> None:
        import tensorflow as tf

        self.job = job
        self.operators = OPERATORS.get(job.scenario.id)
        self.epoch_number = 0
        # tf.data runs on the host; without this, its variables would go to a GPU that is there.
        with tf.device(HOST):
            self.seed = tf.Variable(0, dtype=tf.int64)
            self.tables = {name: tf.Variable(values) for name, values in self.drawn(0).items()}
        self.iterator: Any = None

    def drawn(self, epoch: int) -> dict[str, Array]:
        """Return the tables of random parameters that TensorFlow's operators need."""
        if self.operators is None:
            return {}
        return self.operators.draw(self.job.scenario, self.job.dataset, epoch)

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Set the variables and return a new iterator over the same graph: batches of tensors."""
        import tensorflow as tf

        self.epoch_number = epoch
        with tf.device(HOST):
            self.seed.assign(self.job.shuffle_seed(epoch))
            for name, values in self.drawn(epoch).items():
                self.tables[name].assign(values)
            self.iterator = iter(self.dataset)
        batches: Iterator[Batch] = self.iterator
        return batches

    @cached_property
    def dataset(self) -> Any:
        """The whole pipeline."""
        import tensorflow as tf

        job = self.job
        keys = self.keys().shard(job.world, job.rank)
        if job.shuffle:
            # Made anew when an epoch starts, so that its order is that of the variable's seed.
            in_order, buffer = keys, int(job.options.get("shuffle_buffer", SHUFFLE_BUFFER))
            keys = tf.data.Dataset.from_tensors(0).flat_map(
                lambda _: in_order.shuffle(buffer, seed=self.seed)
            )
        dataset = self.batches(keys)
        if job.workers:
            dataset = dataset.prefetch(job.prefetch)
        options = tf.data.Options()
        options.deterministic = True
        # A checkpoint need not hold the variables: they are set from seed and epoch on resuming.
        options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
        options.experimental_optimization.map_fusion = True
        options.threading.private_threadpool_size = max(1, job.workers)
        options.threading.max_intra_op_parallelism = 1
        return dataset.with_options(options)

    def keys(self) -> Any:
        """Return the dataset that is shuffled: serialised records, or indices of elements."""
        import tensorflow as tf

        job = self.job
        if job.format != "tfrecord":
            return tf.data.Dataset.range(len(job.dataset))
        paths = sorted(str(path) for path in job.storage.glob("*.tfrecord"))
        return tf.data.Dataset.from_tensor_slices(paths).interleave(
            tf.data.TFRecordDataset,
            cycle_length=FILES_AT_ONCE,
            num_parallel_calls=job.workers or None,
        )

    def batches(self, keys: Any) -> Any:
        """Read, work and batch: small work on whole batches, other work on elements."""
        from skymark.suites.loading.adapters.tfdata.records import (
            THROUGH_PYTHON,
            VECTORISED,
            source,
        )

        job, scenario = self.job, self.job.scenario
        steps = () if self.operators is None else self.operators.steps(scenario, self.tables)
        parallel = {"num_parallel_calls": job.workers} if job.workers else {}
        size, drop_last = job.batch_size, job.drop_last
        read = source(job)
        if self.operators is not None and self.operators.on_batches:
            if job.format in VECTORISED:
                dataset = keys.batch(size, drop_last).map(read, **parallel)
            else:
                dataset = keys.map(read, **parallel).ragged_batch(size, drop_last)
            for step in steps:
                dataset = dataset.map(step)
            return dataset
        if self.operators is not None:
            dataset = keys.map(read, **parallel)
            for step in steps:
                dataset = dataset.map(step, **parallel)
        elif job.format in THROUGH_PYTHON:  # one call of Python instead of two
            dataset = keys.map(self.reference(job.reader()), **parallel)
        else:
            dataset = keys.map(read, **parallel).map(self.reference(), **parallel)
        if scenario.bucket_boundaries:
            dataset = self.bucketed(dataset)
        else:
            dataset = dataset.batch(size, drop_last)
        return dataset.map(self.mixed, **parallel) if scenario.mixes else dataset

    def bucketed(self, elements: Any) -> Any:
        """Batch by length; TensorFlow's buckets end before their boundary, skymark's with it."""
        import tensorflow as tf

        job, scenario = self.job, self.job.scenario
        boundaries = [boundary + 1 for boundary in scenario.bucket_boundaries]
        return elements.bucket_by_sequence_length(
            lambda element: tf.shape(element[scenario.length_field])[0],
            boundaries,
            [job.batch_size] * (len(boundaries) + 1),
            padding_values={
                name: tf.constant(scenario.padding.get(name, 0), spec.dtype)
                for name, spec in elements.element_spec.items()
            },
            drop_remainder=job.drop_last,
        )

    def reference(self, reader: Reader | None = None) -> Callable[[Any], Tensors]:
        """Return all of the reference's work as one step, in Python, with reading if need be."""
        from skymark.suites.loading.adapters.tfdata.records import in_python

        job = self.job
        like = job.transform(job.dataset[0], 0)

        def work(element: Element) -> Element:
            raw = element if reader is None else reader[int(element["index"])]
            return job.transform(raw, self.epoch_number)

        def step(element: Any) -> Tensors:
            return in_python(work, element if reader is None else {"index": element}, like)

        return step

    def mixed(self, batch: Tensors) -> Tensors:
        """Do the reference's batch-level work, in Python."""
        from skymark.suites.loading.adapters.tfdata.records import in_python

        job = self.job
        like = job.mix(job.collate([job.transform(job.dataset[0], 0)]), 0)
        return in_python(lambda arrays: job.mix(arrays, self.epoch_number), batch, like)

    def state(self) -> bytes:
        """Return the checkpoint of the iterator: the files that TensorFlow writes."""
        import tensorflow as tf

        with tempfile.TemporaryDirectory() as directory:
            tf.train.Checkpoint(iterator=self.iterator).write(f"{directory}/position")
            files = {path.name: path.read_bytes() for path in Path(directory).iterdir()}
        return pickle.dumps(files)

    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        """Restore the iterator from those files."""
        import tensorflow as tf

        batches = self.epoch(epoch)
        with tempfile.TemporaryDirectory() as directory:
            for name, content in pickle.loads(state).items():  # noqa: S301 - our own bytes
                Path(directory, name).write_bytes(content)
            tf.train.Checkpoint(iterator=self.iterator).read(f"{directory}/position")
        return batches

    def close(self) -> None:
        """Drop iterator and dataset, which ends their threads."""
        self.iterator = None
        self.__dict__.pop("dataset", None)


@adapter
class TfData(Adapter):
    """`tf.data.Dataset` over TFRecord files."""

    slug: ClassVar = "tfdata"
    name: ClassVar = "tf.data"
    distribution: ClassVar = "tensorflow-cpu"
    imports: ClassVar = "tensorflow"
    homepage: ClassVar = "https://www.tensorflow.org/guide/data"
    abilities: ClassVar = frozenset(
        {
            "map",
            "shuffle",
            "seeded",
            "worker-invariant",
            "batch-map",
            "variable-length",
            "bucket",
            "shard",
            "checkpoint",
            "stream",
            "eager",
            "source:memory",
            "source:files",
            "source:tar",
            "source:columnar",
            "source:http",
        }
    )
    limits: ClassVar = {"jax": "tf.data feeds TensorFlow's devices; there is no JAX in its venv"}
    formats: ClassVar = ("tfrecord", "memory", "files", "tar", "parquet", "http")
    framework: ClassVar = "tensorflow"
    acceleration: ClassVar = Acceleration(
        seen_by={"gpu": "tensorflow"},
        pins={"cuda12": "gpu", "cuda13": "gpu"},
        distributions={"cuda12": "tensorflow", "cuda13": "tensorflow"},
        # The first of several ranks must not take all of a GPU's memory.
        variables={
            "cpu": {"CUDA_VISIBLE_DEVICES": "-1"},
            "gpu": {"TF_FORCE_GPU_ALLOW_GROWTH": "true"},
        },
    )
    shuffles: ClassVar = f"buffer {SHUFFLE_BUFFER}"
    options: ClassVar = {"shuffle_buffer": "elements held while shuffling; else `SHUFFLE_BUFFER`"}
    native: ClassVar = frozenset(OPERATORS)
    version: ClassVar = 2
    variables: ClassVar = {"TF_CPP_MIN_LOG_LEVEL": "2"}

    def convert(self, dataset: Dataset, directory: Path, format: str) -> None:
        """Write TFRecord files."""
        from skymark.suites.loading.adapters.tfdata.records import write_records

        if format != "tfrecord":
            super().convert(dataset, directory, format)
        write_records(dataset, directory)

    def shuffle_kind(self, job: LoadingJob) -> str:
        """Return the size of the buffer."""
        return f"buffer {job.options.get('shuffle_buffer', SHUFFLE_BUFFER)}"

    def open(self, job: LoadingJob) -> Loader:
        """Return the pipeline."""
        return TfDataLoader(job)
