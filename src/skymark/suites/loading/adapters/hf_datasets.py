"""Hugging Face Datasets: memory-mapped Arrow files, shuffled by index, read in batches.

Arrow files, memory and lists of files are a `Dataset`: ``shuffle``, ``with_format("arrow")`` and
``iter``. Tar shards, local or on a server, are streamed as an `IterableDataset`, shuffled through a
buffer of `SHUFFLE_BUFFER` elements (``--set shuffle_buffer=N``). Datasets has no workers of its
own for this and reads nothing ahead (its guides leave that to PyTorch's DataLoader), so the work is
done in the calling thread, whatever `workers` and `prefetch` say.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.adapter import Adapter, Loader, LoadingJob, adapter
from skymark.suites.loading.bucketing import batches_of

if TYPE_CHECKING:
    from pathlib import Path

    from skymark.suites.loading.dataset.canonical import Dataset, Element
    from skymark.suites.loading.scenario import Batch

SHUFFLE_BUFFER = 1000
"""Elements held while shuffling a stream: the library's default."""
ROWS_PER_WRITE = 1000
ARROW_FILE = "data.arrow"


class HuggingFaceLoader(Loader):
    """The scenario's work on raw elements, which a subclass reads in an epoch's order."""

    def __init__(self, job: LoadingJob) -> None:
        self.job = job
        self.delivered = 0

    def elements(self, epoch: int, skip: int) -> Iterator[Element]:
        """Return this rank's raw elements in this epoch's order, without the first ones."""
        raise NotImplementedError

    def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[Batch]:
        """Yield batches of NumPy arrays."""
        job = self.job
        self.delivered = skip_batches
        raw = self.elements(epoch, skip_batches * job.batch_size)
        for batch in batches_of((job.transform(element, epoch) for element in raw), job):
            self.delivered += 1
            yield job.mix(batch, epoch)

    def state(self) -> bytes:
        """Return how many batches of the epoch were delivered."""
        return str(self.delivered).encode()

    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        """Skip the batches delivered, which costs nothing where the order is one of indices."""
        return self.epoch(epoch, int(state))


class TableLoader(HuggingFaceLoader):
    """A map-style `Dataset` of Arrow tables, or of a listing whose files are opened row by row."""

    def __init__(self, job: LoadingJob) -> None:
        import datasets
        from datasets.table import InMemoryTable

        from skymark.suites.loading.dataset.arrow import arrow_table

        super().__init__(job)
        if job.format == "arrow":
            self.dataset = datasets.Dataset.from_file(str(job.storage / ARROW_FILE))
        elif job.format == "memory":
            self.dataset = datasets.Dataset(InMemoryTable(arrow_table(job.dataset)))
        else:
            self.reader = job.reader()
            self.dataset = datasets.Dataset.from_dict({"index": range(len(self.reader))})

    def elements(self, epoch: int, skip: int) -> Iterator[Element]:
        """Shuffle and share indices, and take rows in batches."""
        from datasets.distributed import split_dataset_by_node

        from skymark.suites.loading.dataset.arrow import rows_of_table

        job, dataset = self.job, self.dataset
        if job.shuffle:
            dataset = dataset.shuffle(seed=job.shuffle_seed(epoch), keep_in_memory=True)
        dataset = split_dataset_by_node(dataset, rank=job.rank, world_size=job.world).skip(skip)
        tables = dataset.with_format("arrow").iter(job.batch_size)
        if job.format == "files":
            return (self.reader[index] for table in tables for index in table["index"].to_pylist())
        return chain.from_iterable(rows_of_table(table, job.dataset.columns) for table in tables)


class StreamLoader(HuggingFaceLoader):
    """An `IterableDataset` of tar shards, on disk or on a server."""

    def __init__(self, job: LoadingJob) -> None:
        import datasets

        from skymark.suites.loading.dataset.objects import object_url

        super().__init__(job)
        root = object_url() if job.format == "http-tar" else job.storage
        shards = [f"{root}/{path.name}" for path in sorted(job.storage.glob("*.tar"))]
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

        from skymark.suites.loading.dataset.element_bytes import extension

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
class HuggingFaceDatasets(Adapter):
    """`datasets.Dataset` over Arrow files; streams of tar shards."""

    slug: ClassVar = "hf-datasets"
    name: ClassVar = "Hugging Face Datasets"
    distribution: ClassVar = "datasets"
    imports: ClassVar = "datasets"
    homepage: ClassVar = "https://huggingface.co/docs/datasets"
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
    limits: ClassVar = {"jax": "it places no batches on device meshes; there is no JAX in its venv"}
    formats: ClassVar = ("arrow", "memory", "files", "tar", "http-tar")
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
        import pyarrow as pa

        from skymark.suites.loading.dataset.arrow import arrow_table

        if format != "arrow":
            super().convert(dataset, directory, format)
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

    def open(self, job: LoadingJob) -> Loader:
        """Return a table or a stream."""
        return (StreamLoader if job.format in {"tar", "http-tar"} else TableLoader)(job)
