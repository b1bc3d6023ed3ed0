"""Amazon S3 Connector for PyTorch: objects of a bucket, taken at random by PyTorch's DataLoader.

As its guide says (https://github.com/awslabs/s3-connector-for-pytorch#readme): an `S3MapDataset`
lists the bucket when it is first asked for its length, and its objects are read by a DataLoader's
workers, whole and one after another, with the sequential reader. Requests are not signed, as for
public data, so that no credentials are looked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.model.errors import DataError
from skymark.suites.loading.adapter import Adapter, Loader, LoadingJob, adapter
from skymark.suites.loading.adapters.pytorch import Elements, PyTorchLoader
from skymark.suites.loading.devices import TORCH
from skymark.suites.loading.storage_formats import BUCKET

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Element

REGION = "us-east-1"
"""Asked for by the client, and of no meaning where an endpoint is given."""

FROM_S3 = "its objects are in S3; local data is read without it"


class Objects(Elements):
    """Elements of one object per column; scalars are listed beside, as labels are."""

    def __init__(self, job: LoadingJob) -> None:
        from s3torchconnector import S3ClientConfig, S3MapDataset

        from skymark.suites.loading.dataset.files import Listing, element_path

        self.job = job
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
        # The bucket is listed here, once for all workers, as by the length that samplers ask for.
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


class BucketLoader(PyTorchLoader):
    """One DataLoader of the objects of a bucket."""

    elements: ClassVar = Objects


@adapter
class S3TorchConnector(Adapter):
    """`s3torchconnector.S3MapDataset` in a DataLoader."""

    slug: ClassVar = "s3torchconnector"
    name: ClassVar = "Amazon S3 Connector for PyTorch"
    distribution: ClassVar = "s3torchconnector"
    imports: ClassVar = "s3torchconnector"
    homepage: ClassVar = "https://awslabs.github.io/s3-connector-for-pytorch"
    guide: ClassVar = "https://github.com/awslabs/s3-connector-for-pytorch#readme"
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
            "shard",
            "stream",
            "source:http",
        }
    )
    limits: ClassVar = {
        "mix": "it has no weighted mixing of sources",
        "seek": "its objects are in S3; it has none that are computed",
        "checkpoint": "torchdata, whose DataLoader saves positions, is not in its venv",
        "eager": "objects are read from S3 as they are needed",
        "jax": "a DataLoader delivers PyTorch tensors, not JAX arrays",
        "source:memory": FROM_S3,
        "source:files": FROM_S3,
        "source:tar": FROM_S3,
        "source:columnar": FROM_S3,
    }
    media_only: ClassVar = (
        "an element of its datasets is an object in S3, which no row of numbers is"
    )
    runs_in: ClassVar = ("processes",)
    formats: ClassVar = ("s3",)
    framework: ClassVar = "torch"
    acceleration: ClassVar = TORCH

    def open(self, job: LoadingJob) -> Loader:
        """Return the DataLoader."""
        return BucketLoader(job)
