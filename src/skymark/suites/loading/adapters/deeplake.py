"""Deep Lake: columns in its own format, read in batches of random rows.

Its own random order (a query with ``ORDER BY RANDOM()``) takes no seed. The adapter draws the order
instead, and asks each column for the rows of a batch at once. Images are an `Image` column, all
JPEG or all PNG. Deep Lake decodes them, in place of the first stage of a scenario.

If the rest of the work holds Python's lock, the workers of PyTorch's DataLoader take the rows, as
the guide says. A fork server starts these processes, because Deep Lake has threads of its own.
Otherwise, and with few workers where Deep Lake decodes, `workers` are threads that make whole
batches, each at most `prefetch` batches ahead. 0 workers mean the calling thread. Over S3, each
epoch opens the data set anew, because Deep Lake keeps all data that it has read.

Deep Lake reports to Sentry when it is imported, and no setting turns this off. The adapter sends
the report to a proxy that does not exist.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.adapter import (
    Adapter,
    Execution,
    Loader,
    LoadingJob,
    adapter,
    all_but,
)
from skymark.suites.loading.adapters.pytorch import MapStyleElements, PyTorchLoader, SharedWork
from skymark.suites.loading.devices import TORCH_FROM_HOST
from skymark.suites.loading.element_streams import batches_of
from skymark.suites.loading.storage_formats import TABLE_IN_BUCKET

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from skymark.suites.loading.dataset.canonical import Array, Column, Dataset, Element
    from skymark.suites.loading.work import Batch, Stage

OVER_HTTP = "http-deeplake"
DECODED = frozenset({"CV-1", "CV-3", "CV-4", "CV-6", "MM-1", "PC-2"})
"""Scenarios whose images it decodes."""
JPEGS = frozenset({"JPEG", "grey JPEG", "MPO"})
PNGS = frozenset({"PNG", "RGBA PNG", "grey PNG", "grey-and-alpha PNG", "1-bit PNG"})
"""Kinds of images that it decodes, all of one format in a column."""
FEWEST_PROCESSES = 4
"""Fewest workers that are processes where Deep Lake decodes, which it does without Python's lock:
two threads deliver 1.39 times as many images of CV-1 as two processes (two cores)."""
APPENDED_ROWS = 4096
"""Rows handed to Deep Lake at a time when a dataset is written."""


def write(dataset: Dataset, url: str) -> Any:
    """Write a dataset at a Deep Lake URL and return it, open."""
    import deeplake

    schema = {"index": deeplake.types.Int64()}
    image_format = "png" if dataset.image_kinds and dataset.image_kinds <= PNGS else "jpg"
    schema |= {column.name: column_type(column, image_format) for column in dataset.columns}
    written = deeplake.create(url, schema=schema)
    for start in range(0, len(dataset), APPENDED_ROWS):
        rows = [dataset[at] for at in range(start, min(start + APPENDED_ROWS, len(dataset)))]
        table: dict[str, Any] = {"index": [row["index"] for row in rows]}
        for column in dataset.columns:
            values = [row[column.name] for row in rows]
            raw = column.encoding == "raw"
            table[column.name] = values if raw else [bytes(value) for value in values]
        written.append(table)
    written.commit()
    return written


def column_type(column: Column, image_format: str) -> Any:
    """Return the Deep Lake type of a column; encoded images stay unchanged."""
    import numpy as np
    from deeplake import types

    dtype = np.dtype(column.dtype).name
    if column.encoding == "jpeg":
        return types.Image(dtype="uint8", sample_compression=image_format)
    if column.encoding != "raw":
        return types.Bytes()
    if column.shape == ():
        return dtype
    return types.Array(dtype, 1) if column.shape is None else types.Array(dtype, [*column.shape])


def opened(job: LoadingJob) -> Any:
    """Open a job's dataset on disk, or in the bucket of the object server."""
    import deeplake

    if job.format != OVER_HTTP:
        return deeplake.open_read_only(f"file://{job.storage}")
    client = {
        "endpoint_url": job.root,
        "aws_region": "us-east-1",
        "aws_access_key_id": "anyone",
        "aws_secret_access_key": "anything",
    }
    return deeplake.open_read_only(f"s3://{TABLE_IN_BUCKET}", client)


class Rows(MapStyleElements):
    """Rows of a dataset, opened where they are used: an open one cannot be sent to a worker."""

    start_method: ClassVar = "forkserver"
    preloaded: ClassVar = ("torch.utils.data", __name__)

    def open(self) -> None:
        """Note whether Deep Lake decodes the images."""
        self.decodes = self.job.scenario.id in DECODED

    @cached_property
    def dataset(self) -> Any:
        """The open dataset."""
        return opened(self.job)

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The scenario's work; made where it is used, for functions cannot be sent to a worker."""
        return self.job.scenario.stages()

    def read(self, indices: list[int]) -> list[Element]:
        """Return raw elements; their images are Pillow images if Deep Lake decodes."""
        fields: dict[str, Any] = {"index": indices}
        for column in self.job.dataset.columns:
            stored = self.dataset[column.name]
            if column.encoding == "raw":
                fields[column.name] = stored[indices]
            elif column.encoding != "jpeg":
                fields[column.name] = as_arrays(stored[indices])
            elif self.decodes:
                fields["image"] = as_images(stored[indices])
            else:
                fields[column.name] = as_arrays(stored.get_bytes(indices))
        return [dict(zip(fields, row, strict=True)) for row in zip(*fields.values(), strict=True)]

    def transform(self, element: Element, epoch: int) -> Element:
        """Do the work, without its first stage if Deep Lake has decoded the image."""
        job = self.job
        if not self.decodes:
            return job.transform(element, epoch)
        parameters = job.scenario.parameters(epoch, element["index"])
        element = {name: v for name, v in element.items() if name not in {"height", "width"}}
        for stage in self.stages[1:]:
            element = stage.apply(element, parameters)
        return element

    def __getitems__(self, indices: list[int]) -> list[Element]:
        """Read elements at once, and transform one after another."""
        epoch = self.work.epoch
        return [self.transform(element, epoch) for element in self.read(indices)]


class DeepLakeLoader(Loader):
    """Batches of rows gathered from an open dataset, in a pool of threads."""

    def __init__(self, job: LoadingJob) -> None:
        self.job = job
        self.work = SharedWork(job)
        self.rows = Rows(self.work)
        self.memory = f"mem://skymark-{id(self)}" if job.format == "memory" else None
        self.rows.dataset = opened(job) if self.memory is None else write(job.dataset, self.memory)
        self.pool = ThreadPoolExecutor(job.workers) if job.workers else None

    def batch(self, epoch: int, indices: list[int]) -> Batch:
        """Read, transform and collate a batch."""
        elements = self.rows.__getitems__(indices)
        return self.job.mix(self.job.collate(elements), epoch)

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield batches of NumPy arrays; what came from a bucket in an epoch is not kept."""
        if self.job.format == OVER_HTTP:
            self.rows.dataset = opened(self.job)
        self.work.epoch, order = epoch, self.job.index_batches(epoch)
        if self.job.scenario.bucket_boundaries:
            lists = self.ahead(self.rows.__getitems__, order)
            return batches_of(chain.from_iterable(lists), self.job)
        return self.ahead(partial(self.batch, epoch), order)

    def ahead(self, work: Callable[[list[int]], Any], order: list[list[int]]) -> Iterator[Any]:
        """Yield the results of `work` in order; the pool makes them ahead."""
        if self.pool is None:
            yield from map(work, order)
            return
        waiting: deque[Future[Any]] = deque()
        for indices in order:
            waiting.append(self.pool.submit(work, indices))
            if len(waiting) > self.job.workers * self.job.prefetch:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def close(self) -> None:
        """End the threads and drop the dataset in memory."""
        import deeplake

        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)
        if self.memory is not None:
            deeplake.delete(self.memory)
            self.memory = None


def as_arrays(values: list[bytes]) -> list[Array]:
    """Return encoded values as uint8 arrays ``[length]``."""
    import numpy as np

    return [np.frombuffer(value, np.uint8) for value in values]


def as_images(pixels: list[Array]) -> list[Any]:
    """Return decoded pixels ``[height, width, channels]`` as Pillow images in RGB."""
    from PIL import Image

    return [Image.fromarray(p[..., 0] if p.shape[-1] == 1 else p).convert("RGB") for p in pixels]


@adapter
class DeepLake(Adapter):
    """`deeplake.open_read_only`, with rows taken by lists of indices."""

    slug: ClassVar = "deeplake"
    name: ClassVar = "Deep Lake"
    distribution: ClassVar = "deeplake"
    imports: ClassVar = "deeplake"
    requirements: ClassVar = ("deeplake", "torch")
    homepage: ClassVar = "https://docs.deeplake.ai"
    guide: ClassVar = "https://docs.deeplake.ai/latest/guides/deep-learning/deep-learning/"
    abilities: ClassVar = all_but(
        {
            "mix": "it has no weighted mixing of sources",
            "seek": "its rows lie on disk, and are taken by a permutation of all indices",
            "checkpoint": "Deep Lake has no loader whose position could be saved",
            "jax": "Deep Lake delivers NumPy arrays and knows no device mesh",
        }
    )
    formats: ClassVar = ("deeplake", "memory", OVER_HTTP)
    framework: ClassVar = "torch"
    acceleration: ClassVar = TORCH_FROM_HOST
    native: ClassVar = DECODED
    decodes: ClassVar = dict.fromkeys(native, JPEGS | PNGS)
    version: ClassVar = 2
    variables: ClassVar = {"HTTPS_PROXY": "http://127.0.0.1:9"}

    def convert(self, dataset: Dataset, directory: Path, format: str) -> None:
        """Write Deep Lake's format, for the object server in a bucket."""
        place = directory / TABLE_IN_BUCKET if format == OVER_HTTP else directory
        write(dataset, f"file://{place}")

    @classmethod
    def undecoded(cls, scenario: str, kinds: Collection[str]) -> str | None:
        """Return the reason to refuse data with images of these kinds, or of mixed formats."""
        if JPEGS.issuperset(kinds) or PNGS.issuperset(kinds):
            return None
        return super().undecoded(scenario, kinds) or (
            f"the data has images of the kinds {', '.join(sorted(kinds))}, and a column of "
            f"{cls.name} holds images of one format"
        )

    def execution(self, job: LoadingJob) -> Execution:
        """Return processes if Python's work holds the lock, except for data in memory."""
        few = job.workers < FEWEST_PROCESSES and job.scenario.id in DECODED
        processes = job.scenario.holds_lock and job.format == "deeplake" and not few
        return Execution("processes" if processes else "threads", job.workers)

    def open(self, job: LoadingJob) -> Loader:
        """Return the DataLoader, or the pool of threads."""
        execution = self.execution(job)
        in_processes = execution.model == "processes" and execution.workers
        return PyTorchLoader(job, Rows) if in_processes else DeepLakeLoader(job)
