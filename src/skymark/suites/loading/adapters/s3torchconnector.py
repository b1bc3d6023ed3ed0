"""Amazon S3 Connector for PyTorch: objects of a bucket, taken at random by PyTorch's DataLoader.

As its guide says, an `S3MapDataset` lists the bucket when its length is first needed. `workers` are
the processes of the DataLoader. They read objects whole, one after another, with the sequential
reader. The bucket lies on the server of IO-1. Requests are not signed, so no credentials are
needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.model.errors import DataError
from skymark.suites.loading.adapter import adapter, all_but
from skymark.suites.loading.adapters.pytorch import (
    NO_JAX,
    NO_TORCHDATA,
    ByIndex,
    MapStyleElements,
)
from skymark.suites.loading.storage_formats import BUCKET

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Element

REGION = "us-east-1"
"""Asked for by the client, and of no meaning where an endpoint is given."""


class Objects(MapStyleElements):
    """Elements of one object per column; scalars are listed beside, as labels are."""

    def open(self) -> None:
        """List the bucket, once for all workers, as by the length that samplers ask for.

        Raises:
            DataError: it has another number of objects than the data set.
        """
        from s3torchconnector import S3ClientConfig, S3MapDataset

        from skymark.suites.loading.dataset.files import Listing, element_path

        job = self.job
        self.listing = Listing(job.dataset)
        # S3 lists keys in order, so the columns of an element come one after another.
        self.columns = sorted(self.listing.objects, key=lambda column: element_path(0, column))
        self.objects = S3MapDataset.from_prefix(
            f"s3://{BUCKET}/",
            region=REGION,
            endpoint=job.root,
            transform=content,
            s3client_config=S3ClientConfig(unsigned=True, force_path_style=True),
        )
        if len(self.objects) != len(job.dataset) * len(self.columns):
            raise DataError(
                f"the bucket {BUCKET} has {len(self.objects)} objects for {len(job.dataset)} "
                f"elements of {len(self.columns)}; remove the cached dataset and run again"
            )

    def read(self, indices: list[int]) -> Iterator[Element]:
        """Get objects one after another."""
        from skymark.suites.loading.dataset.files import from_bytes

        for index in indices:
            element = self.listing[index]
            first = index * len(self.columns)
            for place, column in enumerate(self.columns, first):
                element[column.name] = from_bytes(column, self.objects[place])
            yield element


def content(reader: Any) -> bytes:
    """Read an object whole."""
    data: bytes = reader.read()
    return data


@adapter
class S3TorchConnector(ByIndex):
    """`s3torchconnector.S3MapDataset` in a DataLoader."""

    slug: ClassVar = "s3torchconnector"
    name: ClassVar = "Amazon S3 Connector for PyTorch"
    distribution: ClassVar = "s3torchconnector"
    imports: ClassVar = "s3torchconnector"
    requirements: ClassVar = ("s3torchconnector", "torch")
    homepage: ClassVar = "https://awslabs.github.io/s3-connector-for-pytorch"
    guide: ClassVar = "https://github.com/awslabs/s3-connector-for-pytorch#readme"
    elements: ClassVar = Objects
    abilities: ClassVar = all_but(
        {
            **NO_JAX,
            **NO_TORCHDATA,
            "mix": "it has no weighted mixing of sources",
            "seek": "its objects are in S3; it has none that are computed",
            "eager": "objects are read from S3 on demand",
        }
    )
    media_only: ClassVar = (
        "an element of its datasets is an object in S3, which no row of numbers is"
    )
    formats: ClassVar = ("s3",)
