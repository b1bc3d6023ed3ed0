"""Lance: rows of its own columnar format, taken at random by PyTorch's DataLoader.

As its guide for PyTorch says (https://lance.org/integrations/pytorch): a map-style dataset that
takes all rows of a batch at once, as `lance.torch.data.SafeLanceDataset` does, and workers that are
no forks of this process, for Lance has threads of its own: Python's fork server starts them, which
has imported PyTorch once and never Lance. That dataset makes Python objects of the rows, a list of
numbers for an array; here they become arrays without a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.adapter import Adapter, Loader, LoadingJob, adapter
from skymark.suites.loading.adapters.pytorch import Elements, PyTorchLoader
from skymark.suites.loading.devices import TORCH
from skymark.suites.loading.storage_formats import TABLE_IN_BUCKET

if TYPE_CHECKING:
    from pathlib import Path

    from skymark.suites.loading.dataset.canonical import Dataset, Element

FORKED_WITH = ("pyarrow", "torch.utils.data", __name__)
"""Modules that workers have from the start: a second of CPU time that each would take to import."""

OVER_HTTP = "http-lance"

OWN_FORMAT = "rows are taken from Lance's own format; other files have to be written in it first"


class Rows(Elements):
    """Rows of a Lance dataset, which is opened where it is used: it cannot be sent to a worker."""

    def __init__(self, job: LoadingJob) -> None:
        self.job = job
        self._opened: Any = None
        served = job.format == OVER_HTTP
        self.address = f"s3://{TABLE_IN_BUCKET}" if served else str(job.storage)
        self.client = client_of(job.root) if served else None

    def read(self, indices: list[int]) -> list[Element]:
        """Take rows at once."""
        from skymark.suites.loading.dataset.objects import drop_proxies
        from skymark.suites.loading.dataset.parquet import rows_of_table

        if self._opened is None:
            import lance

            if self.client is not None:
                drop_proxies()  # a worker has the environment of the fork server, an older one
            self._opened = lance.dataset(self.address, storage_options=self.client)
        return rows_of_table(self._opened.take(indices), self.job.dataset.columns)


def client_of(url: str) -> dict[str, str]:
    """Return the options of Lance's client of S3 for the object server."""
    return {
        "aws_endpoint": url,
        "allow_http": "true",
        "aws_region": "us-east-1",
        "aws_skip_signature": "true",
    }


class LanceLoader(PyTorchLoader):
    """One DataLoader of rows, whose workers a fork server starts."""

    elements: ClassVar = Rows
    start_method: ClassVar = "forkserver"

    def __init__(self, job: LoadingJob) -> None:
        from multiprocessing import set_forkserver_preload

        set_forkserver_preload([*FORKED_WITH])
        super().__init__(job)


@adapter
class Lance(Adapter):
    """`lance.dataset(…).take` in a DataLoader, torchdata's where positions are to be saved."""

    slug: ClassVar = "lance"
    name: ClassVar = "Lance"
    distribution: ClassVar = "pylance"
    imports: ClassVar = "lance"
    homepage: ClassVar = "https://lance.org"
    guide: ClassVar = "https://lance.org/integrations/pytorch"
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
            "stream",
            "source:columnar",
            "source:http",
        }
    )
    limits: ClassVar = {
        "seek": "its rows lie on disk, and a DataLoader's sampler draws a permutation of all",
        "eager": "rows are taken from disk as they are needed",
        "jax": "a DataLoader delivers PyTorch tensors, not JAX arrays",
        "source:memory": OWN_FORMAT,
        "source:files": OWN_FORMAT,
        "source:tar": OWN_FORMAT,
    }
    runs_in: ClassVar = ("processes",)
    formats: ClassVar = ("lance", OVER_HTTP)
    framework: ClassVar = "torch"
    acceleration: ClassVar = TORCH

    def convert(self, dataset: Dataset, directory: Path, format: str) -> None:
        """Write Lance's format, for the object server in a bucket."""
        if format not in self.formats:
            super().convert(dataset, directory, format)
        import lance

        from skymark.suites.loading.dataset.parquet import arrow_table

        place = directory / TABLE_IN_BUCKET if format == OVER_HTTP else directory
        lance.write_dataset(arrow_table(dataset), place, mode="overwrite")

    def open(self, job: LoadingJob) -> Loader:
        """Return the DataLoader."""
        return LanceLoader(job)
