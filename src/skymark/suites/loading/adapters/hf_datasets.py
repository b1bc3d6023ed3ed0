"""Hugging Face Datasets: memory-mapped Arrow files, shuffled by index, read in batches.

If a batch takes long to make, the `Dataset` lies in PyTorch's DataLoader, whose worker processes
decode and transform, as the guide says. The library has no workers for this, and reads nothing
ahead. The calling thread does small work, with ``shuffle``, ``with_format("arrow")`` and ``iter``.
It also takes rows of numbers, if there are few workers. Both ways take the rows of a batch at once
as Arrow, and make arrays without a copy. Tar shards, local or on a server, are an `IterableDataset`
in the calling thread, shuffled through a buffer (``--set shuffle_buffer=N``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.adapter import (
    Execution,
    Loader,
    LoadingJob,
    SkippingLoader,
    adapter,
    all_but,
)
from skymark.suites.loading.adapters.pytorch import InDataLoader, MapStyleElements, PyTorchLoader
from skymark.suites.loading.element_streams import batches_of

if TYPE_CHECKING:
    from pathlib import Path

    from skymark.suites.loading.dataset.canonical import Dataset, Element
    from skymark.suites.loading.work import Batch, Mixture

SHUFFLE_BUFFER = 1000
"""Elements held while shuffling a stream: the library's default."""
FEWEST_FOR_ROWS = 3
"""Fewest workers that are worth it for rows of numbers. To send such a batch takes about half of
the CPU time to make it, so two processes do hardly more than the calling thread."""
ROWS_PER_WRITE = 1000
ARROW_FILE = "data.arrow"


class HuggingFaceLoader(SkippingLoader):
    """The scenario's work on raw elements, which a subclass reads in an epoch's order."""

    def __init__(self, job: LoadingJob) -> None:
        self.job = job

    def elements(self, epoch: int, skip: int) -> Iterator[Element]:
        """Return this rank's raw elements in this epoch's order, without the first ones."""
        raise NotImplementedError

    def after(self, epoch: int, batches: int) -> Iterator[Batch]:
        """Return batches of NumPy arrays."""
        job = self.job
        raw = self.elements(epoch, batches * job.batch_size)
        transformed = (job.transform(element, epoch) for element in raw)
        return (job.mix(batch, epoch) for batch in batches_of(transformed, job))


def opened(job: LoadingJob) -> Any:
    """Return the map-style `Dataset` of a job, of Arrow tables or of a listing of files."""
    import datasets
    from datasets.table import InMemoryTable

    from skymark.suites.loading.dataset.parquet import arrow_table

    if job.format == "arrow":
        dataset = datasets.Dataset.from_file(str(job.storage / ARROW_FILE))
    elif job.format == "memory":
        dataset = datasets.Dataset(InMemoryTable(arrow_table(job.dataset)))
    else:
        dataset = datasets.Dataset.from_dict({"index": range(len(job.dataset))})
    return dataset.with_format("arrow")


def mixed(dataset: Any, mixture: Mixture, seed: int) -> Any:
    """Interleave shuffled sources; an exhausted source begins again in the same order."""
    import datasets

    sources = [
        dataset.select(range(*bounds)).shuffle(seed=seed + number, keep_in_memory=True)
        for number, bounds in enumerate(mixture.bounds)
    ]
    weights = list(mixture.weights)
    stream = datasets.interleave_datasets(
        sources, probabilities=weights, seed=seed, stopping_strategy="all_exhausted"
    )
    return stream.select(range(mixture.elements)).with_format("arrow")


class Rows(MapStyleElements):
    """Rows of a `Dataset`, a batch at a time; listed files are opened one by one."""

    def open(self) -> None:
        """Open the tables, or the listing of files and the files."""
        self.dataset = opened(self.job)
        if self.job.format == "files":
            super().open()

    def read(self, indices: list[int]) -> Iterable[Element]:
        """Take rows."""
        table = self.dataset[indices]
        if self.job.format == "files":
            return (self.reader[index] for index in table["index"].to_pylist())
        from skymark.suites.loading.dataset.parquet import rows_of_table

        return rows_of_table(table, self.job.dataset.columns)


class TableLoader(HuggingFaceLoader):
    """A `Dataset` that is read in the calling thread."""

    def __init__(self, job: LoadingJob) -> None:
        super().__init__(job)
        self.dataset = opened(job)
        if job.format == "files":
            self.reader = job.reader()

    def elements(self, epoch: int, skip: int) -> Iterator[Element]:
        """Shuffle and share indices, and take rows in batches."""
        from datasets.distributed import split_dataset_by_node

        from skymark.suites.loading.dataset.parquet import rows_of_table

        job, dataset = self.job, self.dataset
        if (mixture := job.scenario.mixture) is not None:
            dataset = mixed(dataset, mixture, job.shuffle_seed(epoch))
        elif job.shuffle:
            dataset = dataset.shuffle(seed=job.shuffle_seed(epoch), keep_in_memory=True)
        dataset = split_dataset_by_node(dataset, rank=job.rank, world_size=job.world).skip(skip)
        tables = dataset.iter(job.batch_size)
        if job.format == "files":
            return (self.reader[index] for table in tables for index in table["index"].to_pylist())
        return chain.from_iterable(rows_of_table(table, job.dataset.columns) for table in tables)


class StreamLoader(HuggingFaceLoader):
    """An `IterableDataset` of tar shards, on disk or on a server."""

    def __init__(self, job: LoadingJob) -> None:
        import datasets

        super().__init__(job)
        shards = [f"{job.root}/{path.name}" for path in sorted(job.storage.glob("*.tar"))]
        # Shards that skymark wrote: nothing is downloaded that a revision could pin.
        stream = datasets.load_dataset(  # nosec B615
            "webdataset", data_files={"train": shards}, split="train", streaming=True
        )
        self.stream = stream.decode(False)

    def elements(self, epoch: int, skip: int) -> Iterator[Element]:
        """Shuffle shards and, in a buffer, elements; share the stream between the ranks."""
        from datasets.distributed import split_dataset_by_node

        job = self.job
        stream = split_dataset_by_node(self.stream, rank=job.rank, world_size=job.world)
        if job.shuffle:
            buffer = int(job.options.get("shuffle_buffer", SHUFFLE_BUFFER))
            stream = stream.shuffle(seed=job.shuffle_seed(epoch), buffer_size=buffer)
        return (self.element(members) for members in stream.skip(skip))

    def element(self, members: dict[str, Any]) -> Element:
        """Turn the members of one key, of which the library parses JSON and NumPy's format."""
        import numpy as np

        from skymark.suites.loading.dataset.files import extension

        element: Element = {"index": int(members["__key__"])}
        for column in self.job.dataset.columns:
            if column.shape == ():
                element[column.name] = np.dtype(column.dtype).type(members["json"][column.name])
                continue
            value = members[f"{column.name}.{extension(column)}".lower()]
            if column.encoding != "raw":
                value = np.frombuffer(value["bytes"] if isinstance(value, dict) else value, "u1")
            element[column.name] = np.asarray(value, column.dtype)
        return element


@adapter
class HuggingFaceDatasets(InDataLoader):
    """`datasets.Dataset` over Arrow files in a DataLoader; streams of tar shards."""

    slug: ClassVar = "hf-datasets"
    name: ClassVar = "Hugging Face Datasets"
    distribution: ClassVar = "datasets"
    imports: ClassVar = "datasets"
    requirements: ClassVar = ("datasets", "fsspec[http]", "pyarrow", "torch", "torchdata")
    homepage: ClassVar = "https://huggingface.co/docs/datasets"
    guide: ClassVar = "https://huggingface.co/docs/datasets/use_with_pytorch"
    abilities: ClassVar = all_but(
        {
            "seek": "`shuffle` makes a table of all indices, 8 bytes for each",
            "jax": "it places no batches on device meshes; there is no JAX in its venv",
        }
    )
    formats: ClassVar = ("arrow", "memory", "files", "tar", "http-tar")
    version: ClassVar = 3
    options: ClassVar = {
        "shuffle_buffer": "elements held while shuffling a stream; else `SHUFFLE_BUFFER`"
    }
    variables: ClassVar = {
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    }

    def convert(self, dataset: Dataset, directory: Path, format: str) -> None:
        """Write one Arrow file, in the stream format that the library maps into memory."""
        del format
        import pyarrow as pa

        from skymark.suites.loading.dataset.parquet import arrow_table

        schema = arrow_table(dataset, 0, 1).schema
        path = str(directory / ARROW_FILE)
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, schema) as stream:
            for start in range(0, len(dataset), ROWS_PER_WRITE):
                stream.write_table(arrow_table(dataset, start, start + ROWS_PER_WRITE))

    def shuffle_kind(self, job: LoadingJob) -> str:
        """Return that tables are shuffled globally, tar shards through a buffer."""
        if job.format not in {"tar", "http-tar"}:
            return self.shuffles
        return f"shards, buffer {job.options.get('shuffle_buffer', SHUFFLE_BUFFER)}"

    def execution(self, job: LoadingJob) -> Execution:
        """Return the DataLoader's processes, where batches take long enough to make."""
        scenario, streams = job.scenario, job.format in {"tar", "http-tar"}
        worth = scenario.encoded_media or job.workers >= FEWEST_FOR_ROWS
        in_processes = scenario.holds_lock and worth and not streams
        return super().execution(job) if in_processes else Execution()

    def open(self, job: LoadingJob) -> Loader:
        """Return a stream, or a table that workers read if there are any."""
        if job.format in {"tar", "http-tar"}:
            return StreamLoader(job)
        return PyTorchLoader(job, Rows) if self.execution(job).workers else TableLoader(job)
