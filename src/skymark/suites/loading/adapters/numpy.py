"""The NumPy reference: a plain loop over the canonical data. The baseline of every table.

`workers` and `prefetch` have no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from skymark.suites.loading.adapter import Adapter, LoadingJob, SkippingLoader, adapter, all_but
from skymark.suites.loading.devices import TORCH_ON_GPUS
from skymark.suites.loading.element_streams import batches_of

if TYPE_CHECKING:
    from skymark.suites.loading.work import Batch


class NumpyLoader(SkippingLoader):
    """Read, transform, collate, one element after another, in the calling thread."""

    def __init__(self, job: LoadingJob) -> None:
        self.job = job
        self.reader = job.reader()

    def order(self, epoch: int) -> list[int]:
        """Return this rank's elements in this epoch's order."""
        order: list[int] = self.job.order(epoch).tolist()
        return order

    def after(self, epoch: int, batches: int) -> Iterator[Batch]:
        """Return batches of NumPy arrays."""
        job, reader = self.job, self.reader
        order = self.order(epoch)[batches * job.batch_size :]
        elements = (job.transform(reader[index], epoch) for index in order)
        return (job.mix(batch, epoch) for batch in batches_of(elements, job))


@adapter
class NumpyReference(Adapter):
    """The oracle's reference work as a loop in one thread."""

    slug: ClassVar = "numpy"
    name: ClassVar = "NumPy reference"
    distribution: ClassVar = "numpy"
    imports: ClassVar = "numpy"
    requirements: ClassVar = ("pyarrow",)
    homepage: ClassVar = "https://numpy.org"
    guide: ClassVar = "https://numpy.org/doc/stable/user/absolute_beginners.html"
    loader: ClassVar = NumpyLoader
    abilities: ClassVar = all_but(
        {
            "seek": "it draws a permutation of all indices, 8 bytes for each",
            "jax": "NumPy has no device arrays",
        }
    )
    formats: ClassVar = ("canonical", "memory", "files", "tar", "parquet", "http")
    framework: ClassVar = "torch"
    framework_platforms: ClassVar = frozenset({"gpu"})
    acceleration: ClassVar = TORCH_ON_GPUS
