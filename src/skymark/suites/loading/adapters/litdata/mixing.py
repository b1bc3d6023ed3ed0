"""A `CombinedStreamingDataset` of sources by weight, each gone through again and again.

The library mixes in each worker by itself, from a share of every source, until one of them ends:
here each begins again then, as the library's cycling `ParallelStreamingDataset` lets its datasets
do, and an epoch ends by the number of its elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skymark.suites.loading.adapters.litdata.adapter import Work
    from skymark.suites.loading.element_streams import Mixture

PASSES = 1000
"""Numbers of passes that an epoch has room for; the library shuffles each pass by its number."""


@cache
def classes() -> tuple[Any, Any]:
    """Make the datasets of a source and of a mixture; the library is not imported before."""
    from litdata import CombinedStreamingDataset, StreamingDataset
    from torch.utils.data import get_worker_info

    class Source(StreamingDataset):  # type: ignore[misc]
        """A StreamingDataset that begins again where it ends, in another order."""

        def __next__(self) -> Any:
            try:
                return super().__next__()
            except StopIteration:
                iter(self)
                return super().__next__()

    class Mixed(CombinedStreamingDataset):  # type: ignore[misc]
        """A worker's share of the mixture in each epoch."""

        def __init__(self, work: Work, mixture: Mixture, sources: list[Any]) -> None:
            super().__init__(sources, weights=mixture.weights, iterate_over_all=False)
            self.work = work
            self.mixture = mixture

        def set_batch_size(self, batch_size: int) -> None:
            # Batches are of the mixture: workers are to share a source by element, not by batch.
            del batch_size
            super().set_batch_size(1)

        def __iter__(self) -> Iterator[Any]:
            worker, job, mixture = get_worker_info(), self.work.job, self.mixture
            epoch = self.work.current.value
            number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
            # Else all workers would draw the same sources, and those of the epoch before.
            self._seed = f"{job.shuffle_seed(epoch)} {number}"
            self.set_epoch(1 + epoch * PASSES)
            return islice(super().__iter__(), mixture.share(number, workers, job.batch_size))

    return Source, Mixed


def mixed(work: Work, mixture: Mixture, item_loader: Any) -> Any:
    """Return the mixture of a dataset's sources, each a range of its elements."""
    job, (source, combined), sources = work.job, classes(), []
    for number, bounds in enumerate(mixture.bounds):
        whole = source(
            str(job.storage),
            item_loader=item_loader,
            shuffle=job.shuffle,
            seed=job.shuffle_seed(0) + number,
        )
        if job.format == "indexed-parquet":
            sort_files(whole)
        part = whole.subset(slice(*bounds))
        part.transform = work.transformed
        sources.append(part)
    return combined(work, mixture, sources)


def sort_files(dataset: Any) -> None:
    """Put Parquet files in the order of their names; they were indexed as the disk lists them."""
    files = sorted(zip(dataset.subsampled_files, dataset.region_of_interest, strict=True))
    dataset.subsampled_files = [name for name, _ in files]
    dataset.region_of_interest = [rows for _, rows in files]
