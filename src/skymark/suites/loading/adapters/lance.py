"""Lance: rows of its own columnar format, taken at random by PyTorch's DataLoader.

As its guide for PyTorch says, a map-style dataset takes all rows of a batch at once, as
`lance.torch.data.SafeLanceDataset` does. `workers` are processes. Python's fork server starts them,
because Lance has threads of its own and cannot be forked; the server has imported PyTorch once, and
never Lance. Lance's dataset makes Python objects of the rows. Here they become arrays without a
copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.adapter import adapter, all_but
from skymark.suites.loading.adapters.pytorch import BY_SAMPLER, ByIndex, MapStyleElements
from skymark.suites.loading.storage_formats import TABLE_IN_BUCKET

if TYPE_CHECKING:
    from pathlib import Path

    from skymark.suites.loading.dataset.canonical import Dataset, Element

OVER_HTTP = "http-lance"


class Rows(MapStyleElements):
    """Rows of a Lance dataset, which is opened where it is used: it cannot be sent to a worker."""

    start_method: ClassVar = "forkserver"
    preloaded: ClassVar = ("pyarrow", "torch.utils.data", __name__)

    def open(self) -> None:
        """Name the data, and note how to reach it."""
        self._opened: Any = None
        served = self.job.format == OVER_HTTP
        self.address = f"s3://{TABLE_IN_BUCKET}" if served else str(self.job.storage)
        self.client = client_of(self.job.root) if served else None

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


@adapter
class Lance(ByIndex):
    """`lance.dataset(…).take` in a DataLoader, torchdata's where positions are to be saved."""

    slug: ClassVar = "lance"
    name: ClassVar = "Lance"
    distribution: ClassVar = "pylance"
    imports: ClassVar = "lance"
    requirements: ClassVar = ("pylance", "torch", "torchdata", "pyarrow")
    homepage: ClassVar = "https://lance.org"
    guide: ClassVar = "https://lance.org/integrations/pytorch"
    elements: ClassVar = Rows
    abilities: ClassVar = all_but(
        {
            **BY_SAMPLER,
            "seek": "its rows lie on disk, and a DataLoader's sampler draws a permutation of all",
            "eager": "rows are read from disk on demand",
        }
    )
    formats: ClassVar = ("lance", OVER_HTTP)

    def convert(self, dataset: Dataset, directory: Path, format: str) -> None:
        """Write Lance's format, for the object server in a bucket."""
        import lance

        from skymark.suites.loading.dataset.parquet import arrow_table

        place = directory / TABLE_IN_BUCKET if format == OVER_HTTP else directory
        lance.write_dataset(arrow_table(dataset), place, mode="overwrite")
