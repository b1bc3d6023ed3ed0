"""tf.data: TFRecord files, shuffled through a buffer, mapped in parallel, repeated, prefetched.

One graph serves all epochs. TensorFlow's operators do the work of many scenarios (`operators`),
small work on whole batches, as TensorFlow's performance guide advises. Other work is the
reference's, called through `tf.numpy_function`, which holds Python's lock. `workers` is
`num_parallel_calls` and the size of the private thread pool; with 0, the single thread that tf.data
needs maps one element after another. As tf.data has no global shuffle of stored data, interleaved
files go through a buffer (``--set shuffle_buffer=N``). Records of small sets are cached as stored,
before the shuffle. Computed elements come in TensorFlow's own random order
(`tf.random.experimental.index_shuffle`).
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.image_formats import PLAIN_KINDS
from skymark.model.errors import UsageError
from skymark.suites.loading.adapter import Adapter, Loader, LoadingJob, adapter, all_but
from skymark.suites.loading.adapters.tfdata.operators import OPERATORS
from skymark.suites.loading.devices import Acceleration

if TYPE_CHECKING:
    from skymark.model.record import Setting
    from skymark.suites.loading.adapters.tfdata.operators import Tensors
    from skymark.suites.loading.dataset.canonical import Dataset, Element
    from skymark.suites.loading.dataset.files import Reader
    from skymark.suites.loading.scenario import Scenario
    from skymark.suites.loading.work import Batch, Mixture

SHUFFLE_BUFFER = 1000
"""Elements held while shuffling, as in the adapters of all libraries that shuffle a stream."""
HOST = "CPU:0"
CACHED_BYTES = 256 << 20
"""Records that together take no more are kept in memory from the first epoch on."""
LAST_EPOCH = 1 << 32
FILES_AT_ONCE = 4
"""Files read in turns. Fixed, because the order of records depends on it."""


class TfDataLoader(Loader):
    """One iterator over all epochs; `epoch` returns one epoch after another.

    The dataset is repeated by mapping the numbers of epochs to datasets. So each epoch has its own
    order and random parameters, and begins before the last batches of the previous epoch arrive.
    """

    def __init__(self, job: LoadingJob) -> None:
        self.job = job
        self.operators = OPERATORS.get(job.scenario.id)
        self.iterator: Any = None
        self.position = 0, 0
        """The epoch that the iterator is in, and the elements delivered of it."""

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield an epoch's batches of tensors; an epoch out of sequence starts a new iterator."""
        if self.iterator is None or self.position != (epoch, 0):
            self.start(epoch)
        return self.rest()

    def seek(self, epoch: int, batches: int) -> Iterator[Batch]:
        """Start an epoch of computed elements after a number of batches."""
        self.start(epoch, batches)
        return self.rest()

    def start(self, epoch: int, skip: int = 0) -> None:
        """Make an iterator over this epoch without its first `skip` batches, and later epochs."""
        import tensorflow as tf

        # tf.data runs on the host; without this, its variables would go to a GPU that is there.
        with tf.device(HOST):
            self.iterator = iter(self.from_epoch(epoch, skip))
        self.position = epoch, skip * self.job.batch_size

    def rest(self) -> Iterator[Batch]:
        """Yield the batches up to the end of the epoch, which is known by their elements."""
        epoch, delivered = self.position
        while delivered < self.elements:
            batch = next(self.iterator)
            delivered += len(batch["index"])
            self.position = (epoch, delivered) if delivered < self.elements else (epoch + 1, 0)
            yield batch

    @cached_property
    def elements(self) -> int:
        """The elements that an epoch delivers."""
        job = self.job
        mine = len(range(job.rank, job.scenario.epoch_elements, job.world))
        return mine - mine % job.batch_size if job.drop_last else mine

    def from_epoch(self, first: int, skip: int = 0) -> Any:
        """Return the pipeline, from a batch of an epoch on."""
        import numpy as np
        import tensorflow as tf

        job, read = self.job, self.read
        keys = None if job.format == "computed" else self.keys()

        @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
        def of(epoch: Any) -> Any:
            if job.scenario.mixture is not None:
                return self.batches(mixed(job, job.scenario.mixture, epoch), read, epoch)
            if keys is not None:
                return self.batches(shuffled(job, keys, epoch), read, epoch)
            begin = tf.where(tf.equal(epoch, first), np.int64(skip * job.batch_size), np.int64(0))
            return self.batches(permuted(job, epoch, begin), read, epoch)

        dataset = tf.data.Dataset.range(first, LAST_EPOCH).flat_map(of)
        if job.workers:
            dataset = dataset.prefetch(job.prefetch)
        options = tf.data.Options()
        options.deterministic = True
        # A checkpoint need not hold what Python functions know: they are made anew on resuming.
        options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
        options.experimental_optimization.map_fusion = True
        options.threading.private_threadpool_size = max(1, job.workers)
        options.threading.max_intra_op_parallelism = 1
        dataset = dataset.with_options(options)
        return dataset.apply(self.to_device) if self.copies_ahead else dataset

    @property
    def copies_ahead(self) -> bool:
        """Whether tf.data copies a batch to the device ahead; such an iterator has no position."""
        job = self.job
        saved = "checkpoint" in job.scenario.requirements(job.scenario.axes)
        return job.deliver == "device" and job.copies_ahead and not saved

    def to_device(self, dataset: Any) -> Any:
        """Return a dataset whose next batch is copied to the device of the job's rank."""
        import tensorflow as tf

        kind, rank = self.job.platform.upper(), self.job.rank
        number = rank % len(tf.config.list_logical_devices(kind))
        place = tf.data.experimental.prefetch_to_device(f"/{kind}:{number}", buffer_size=1)
        return place(dataset)

    def tables(self, epoch: Any) -> Tensors:
        """Return the tables of random parameters that TensorFlow's operators need in an epoch."""
        import tensorflow as tf

        from skymark.suites.loading.adapters.tfdata.records import in_python

        if self.operators is None:
            return {}
        draw, job = self.operators.draw, self.job
        like = draw(job.scenario, job.dataset, 0)
        if not like:
            return {}
        tables = in_python(
            lambda given: draw(job.scenario, job.dataset, int(given["epoch"])),
            {"epoch": epoch},
            like,
        )
        return {name: tf.ensure_shape(table, like[name].shape) for name, table in tables.items()}

    def keys(self) -> Any:
        """Return the dataset that is shuffled: serialised records, or indices of elements."""
        import tensorflow as tf

        job = self.job
        if job.format != "tfrecord":
            return tf.data.Dataset.range(len(job.dataset)).shard(job.world, job.rank)
        paths = sorted(job.storage.glob("*.tfrecord"))
        records = tf.data.Dataset.from_tensor_slices([str(path) for path in paths]).interleave(
            tf.data.TFRecordDataset,
            cycle_length=FILES_AT_ONCE,
            # TensorFlow refuses more than there are files at once.
            num_parallel_calls=min(job.workers, FILES_AT_ONCE) or None,
        )
        mine = records.shard(job.world, job.rank)
        return mine.cache() if sum(p.stat().st_size for p in paths) <= CACHED_BYTES else mine

    @cached_property
    def read(self) -> Any:
        """The tensors' source, or a `Reader` where Python reads and works in one call.

        Asked for outside of any function of TensorFlow's, which would hold data in memory as
        constants of its own.
        """
        from skymark.suites.loading.adapters.tfdata.records import THROUGH_PYTHON, source

        job = self.job
        in_one_call = self.operators is None and job.format in THROUGH_PYTHON
        return job.reader() if in_one_call else source(job)

    def batches(self, keys: Any, read: Any, epoch: Any) -> Any:
        """Read, work and batch: small work on whole batches, other work on elements."""
        from skymark.suites.loading.adapters.tfdata.records import THROUGH_PYTHON, VECTORISED

        job, scenario = self.job, self.job.scenario
        steps = () if self.operators is None else self.operators.steps(scenario, self.tables(epoch))
        parallel = {"num_parallel_calls": job.workers} if job.workers else {}
        size, drop_last = job.batch_size, job.drop_last
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
        elif job.format in THROUGH_PYTHON:
            dataset = keys.map(self.reference(epoch, read), **parallel)
        else:
            dataset = keys.map(read, **parallel).map(self.reference(epoch), **parallel)
        if scenario.bucket_boundaries:
            dataset = self.bucketed(dataset)
        else:
            dataset = dataset.batch(size, drop_last)
        return dataset.map(self.mixed(epoch), **parallel) if scenario.mixes else dataset

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

    def reference(self, epoch: Any, reader: Reader | None = None) -> Callable[[Any], Tensors]:
        """Return all of the reference's work as one step, in Python, with reading if need be."""
        from skymark.suites.loading.adapters.tfdata.records import in_python

        job = self.job
        like = job.transform(job.dataset[0], 0)

        def work(given: Element) -> Element:
            number = int(given.pop("epoch"))
            raw = given if reader is None else reader[int(given["index"])]
            return job.transform(raw, number)

        def step(element: Any) -> Tensors:
            given = element if reader is None else {"index": element}
            return in_python(work, {**given, "epoch": epoch}, like)

        return step

    def mixed(self, epoch: Any) -> Callable[[Tensors], Tensors]:
        """Return the reference's batch-level work as a step, in Python."""
        from skymark.suites.loading.adapters.tfdata.records import in_python

        job = self.job
        like = job.mix(job.collate([job.transform(job.dataset[0], 0)]), 0)

        def work(given: dict[str, Any]) -> Batch:
            number = int(given.pop("epoch"))
            return job.mix(given, number)

        return lambda batch: in_python(work, {**batch, "epoch": epoch}, like)

    def state(self) -> bytes:
        """Return the position, and the checkpoint of the iterator: files that TensorFlow writes."""
        import tensorflow as tf

        with tempfile.TemporaryDirectory() as directory:
            tf.train.Checkpoint(iterator=self.iterator).write(f"{directory}/position")
            files = {path.name: path.read_bytes() for path in Path(directory).iterdir()}
        return pickle.dumps((self.position, files))

    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        """Restore the iterator from those files."""
        import tensorflow as tf

        position, files = pickle.loads(state)  # noqa: S301 - our own bytes
        self.start(epoch)
        with tempfile.TemporaryDirectory() as directory:
            for name, content in files.items():
                Path(directory, name).write_bytes(content)
            tf.train.Checkpoint(iterator=self.iterator).read(f"{directory}/position")
        self.position = position
        return self.rest()

    def close(self) -> None:
        """Drop the iterator, which ends its threads."""
        self.iterator = None


def shuffle_buffer(job: LoadingJob) -> int:
    """Return the elements that are held while shuffling."""
    return int(job.options.get("shuffle_buffer", SHUFFLE_BUFFER))


def shuffled(job: LoadingJob, keys: Any, epoch: Any) -> Any:
    """Return a dataset of keys in an epoch's order, an int64 scalar."""
    if not job.shuffle:
        return keys
    return keys.shuffle(shuffle_buffer(job), seed=shuffle_seed(job, epoch))


def mixed(job: LoadingJob, mixture: Mixture, epoch: Any) -> Any:
    """Return indices of several sources, each repeated, mixed by their weights."""
    import tensorflow as tf

    seed = shuffle_seed(job, epoch)
    sources = [
        shuffled(job, tf.data.Dataset.range(*bounds), epoch).repeat() for bounds in mixture.bounds
    ]
    weights = list(mixture.weights)
    stream = tf.data.Dataset.sample_from_datasets(sources, weights, seed=seed)
    return stream.take(mixture.elements)


def permuted(job: LoadingJob, epoch: Any, begin: Any) -> Any:
    """Return indices from a place in an epoch's order on, each computed from its place."""
    import numpy as np
    import tensorflow as tf

    seed = tf.stack([shuffle_seed(job, epoch), np.int64(0)])
    total = len(job.dataset)
    return tf.data.Dataset.range(begin, total, output_type=tf.int64).map(
        lambda place: tf.random.experimental.index_shuffle(place, seed, np.int64(total - 1))
    )


def shuffle_seed(job: LoadingJob, epoch: Any) -> Any:
    """Return the seed of an epoch's shuffle, an int64 scalar."""
    import numpy as np
    import tensorflow as tf

    seed = tf.numpy_function(
        lambda number: np.int64(job.shuffle_seed(int(number))), [epoch], tf.int64
    )
    return tf.ensure_shape(seed, [])


@adapter
class TfData(Adapter):
    """`tf.data.Dataset` over TFRecord files."""

    slug: ClassVar = "tfdata"
    name: ClassVar = "tf.data"
    distribution: ClassVar = "tensorflow-cpu"
    imports: ClassVar = "tensorflow"
    requirements: ClassVar = ("tensorflow-cpu", "pyarrow")
    homepage: ClassVar = "https://www.tensorflow.org/guide/data"
    guide: ClassVar = "https://www.tensorflow.org/guide/data_performance"
    abilities: ClassVar = all_but(
        {
            "pack": "a batch of tf.data has a row per element; it packs no texts",
            "jax": "tf.data feeds TensorFlow's devices; there is no JAX in its venv",
        }
    )
    runs_in: ClassVar = ("threads",)
    formats: ClassVar = ("tfrecord", "memory", "computed", "files", "tar", "parquet", "http")
    framework: ClassVar = "tensorflow"
    acceleration: ClassVar = Acceleration(
        seen_by={"gpu": "tensorflow"},
        # CUDA 12, whatever the driver: there are no wheels for CUDA 13.
        builds=dict.fromkeys(("cuda12", "cuda13"), ("tensorflow[and-cuda]",)),
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
    decodes: ClassVar = dict.fromkeys(
        ("CV-1", "CV-6", "PC-2"),
        PLAIN_KINDS | {"palette GIF", "grey GIF", "WEBP", "EXIF-marked WEBP", "BMP", "grey BMP"},
    )
    version: ClassVar = 3
    variables: ClassVar = {"TF_CPP_MIN_LOG_LEVEL": "2"}

    @classmethod
    def code(cls, workers: int, prefetch: int, *, in_threads: bool) -> str:
        """Return a map with so many parallel calls, and the buffer of batches after it."""
        del in_threads
        if not workers:
            return "dataset.map(work)"
        return f"dataset.map(work, num_parallel_calls={workers}).prefetch({prefetch})"

    @classmethod
    def format_for(cls, scenario: type[Scenario], axes: Mapping[str, Setting]) -> str:
        """Return memory for several sources: all records of a set are mixed in its files."""
        return (
            "memory" if "mix" in scenario.requirements(axes) else super().format_for(scenario, axes)
        )

    def convert(self, dataset: Dataset, directory: Path, format: str) -> None:
        """Write TFRecord files."""
        from skymark.suites.loading.adapters.tfdata.records import write_records

        del format
        write_records(dataset, directory)

    def shuffle_kind(self, job: LoadingJob) -> str:
        """Return the size of the buffer; computed elements need no buffer."""
        if job.format == "computed":
            return "global"
        return f"buffer {shuffle_buffer(job)}"

    def open(self, job: LoadingJob) -> Loader:
        """Return the pipeline.

        Raises:
            UsageError: sources are to be mixed that are not held in memory.
        """
        if job.scenario.mixture is not None and job.format != "memory":
            raise UsageError(f"{self.name} mixes sources in memory only, not {job.format!r}")
        return TfDataLoader(job)
