"""Hugging Face Datasets, streamed: Parquet shards read by a DataLoader's workers.

As the guide says, an `IterableDataset` lies in PyTorch's DataLoader. `workers` are processes, each
with its own shards. The library shuffles shards, then elements in a buffer (``--set
shuffle_buffer=N``). It fills the buffer from one shard at a time (``max_buffer_input_shards=1``);
with more, version 5.2 sleeps 5 s at the end of an epoch. ``map`` does the work, on all rows of a
batch at once. Rows come as Python's lists and bytes, because the library's NumPy format drops zeros
at the end of bytes, and makes 64-bit numbers of the results of ``map``. Python's fork server starts
workers that read over HTTP, because a fork could inherit a lock of the library's thread for
requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.adapter import Loader, LoadingJob, adapter, all_but
from skymark.suites.loading.adapters.hf_datasets import SHUFFLE_BUFFER, HuggingFaceDatasets
from skymark.suites.loading.adapters.pytorch import (
    OF_STREAMS,
    InDataLoader,
    SharedWork,
    bucket_loader,
    worker_settings,
)
from skymark.suites.loading.storage_formats import HTTP

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Column
    from skymark.suites.loading.work import Batch

FORKED_WITH = ("datasets", "torch.utils.data", __name__)
"""Modules that workers of a fork server have from the start."""


def start_method(job: LoadingJob) -> str | None:
    """Return how the DataLoader is to start its workers; None for Python's own way."""
    if not (job.workers and job.format in HTTP):
        return None
    from multiprocessing import set_forkserver_preload

    set_forkserver_preload([*FORKED_WITH])
    return "forkserver"


def value_of(column: Column, value: Any) -> Any:
    """Turn a field, bytes or numbers or lists of them, into what the scenario's work takes."""
    import numpy as np

    if column.encoding != "raw":
        return np.frombuffer(value, np.uint8)
    if column.shape == ():
        return np.dtype(column.dtype).type(value)
    return np.asarray(value, column.dtype).reshape(column.shape or -1)


class WorkOnRows(SharedWork):
    """The scenario's work on rows."""

    def __call__(self, rows: dict[str, Any]) -> dict[str, list[Any]]:
        """Transform some rows, given and returned by field."""
        columns = self.job.dataset.columns
        elements = []
        for place, index in enumerate(rows["index"]):
            fields = {column.name: value_of(column, rows[column.name][place]) for column in columns}
            elements.append(self.transformed({"index": int(index), **fields}))
        return {name: [element[name] for element in elements] for name in elements[0]}


class StreamingLoader(Loader):
    """One DataLoader over one stream, whose workers live on from epoch to epoch."""

    def __init__(self, job: LoadingJob) -> None:
        import datasets
        from datasets.distributed import split_dataset_by_node
        from torch.utils.data import DataLoader

        self.work = WorkOnRows(job)
        shards = [f"{job.root}/{path.name}" for path in sorted(job.storage.glob("*.parquet"))]
        # Shards that skymark wrote: nothing is downloaded that a revision could pin.
        stream = datasets.load_dataset(  # nosec B615
            "parquet", data_files={"train": shards}, split="train", streaming=True
        )
        stream = split_dataset_by_node(stream, rank=job.rank, world_size=job.world)
        if job.shuffle:
            buffer = int(job.options.get("shuffle_buffer", SHUFFLE_BUFFER))
            stream = stream.shuffle(
                seed=job.shuffle_seed(0),
                buffer_size=buffer,
                max_buffer_input_shards=1,  # where several are mixed, an epoch ends 5 s later
            )
        columns = ["index", *(column.name for column in job.dataset.columns)]
        self.stream = stream.map(
            self.work, batched=True, batch_size=job.batch_size, remove_columns=columns
        )
        loader = partial(
            DataLoader, multiprocessing_context=start_method(job), **worker_settings(job)
        )
        if job.scenario.bucket_boundaries:
            self.loader = bucket_loader(loader, self.stream, job)
        else:
            self.loader = loader(
                self.stream,
                batch_size=job.batch_size,
                collate_fn=self.work.collated,
                drop_last=job.drop_last,
            )

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Iterate over batches of tensors."""
        self.work.epoch = epoch
        self.stream.set_epoch(epoch)
        return iter(self.loader)

    def close(self) -> None:
        """Drop the loader, which ends its workers."""
        del self.loader


@adapter
class HuggingFaceStreaming(InDataLoader):
    """`datasets.IterableDataset` over Parquet files in a DataLoader."""

    slug: ClassVar = "hf-streaming"
    name: ClassVar = "Hugging Face Datasets, streaming"
    distribution: ClassVar = "datasets"
    imports: ClassVar = "datasets"
    requirements: ClassVar = ("datasets", "fsspec[http]", "pyarrow", "torch")
    homepage: ClassVar = "https://huggingface.co/docs/datasets/stream"
    guide: ClassVar = "https://huggingface.co/docs/datasets/use_with_pytorch"
    loader: ClassVar = StreamingLoader
    abilities: ClassVar = all_but(
        {
            **OF_STREAMS,
            "mix": "hf-datasets measures the library's interleaving of sources",
            "checkpoint": "a saved position has not what is in the shuffle buffer: it would be "
            "lost",
            "source:memory": "it streams files; hf-datasets reads memory",
            "source:files": "it streams Parquet here; hf-datasets reads listed files",
            "source:tar": "it streams Parquet here; hf-datasets reads tar shards",
        }
    )
    shuffles: ClassVar = f"shards, buffer {SHUFFLE_BUFFER}"
    formats: ClassVar = ("parquet", "http-parquet")
    short_batch_per_worker: ClassVar = 1
    options: ClassVar = HuggingFaceDatasets.options
    variables: ClassVar = HuggingFaceDatasets.variables

    def shuffle_kind(self, job: LoadingJob) -> str:
        """Return that shards are shuffled, and their elements in a buffer."""
        return f"shards, buffer {job.options.get('shuffle_buffer', SHUFFLE_BUFFER)}"
