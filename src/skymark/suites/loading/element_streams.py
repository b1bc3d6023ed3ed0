"""Streams of elements: mixtures of sources by weight, and batches by length bucket.

For libraries that batch plainly only: this is the Python generator that their users write.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Literal

from skymark.model.base import Frozen

if TYPE_CHECKING:
    from skymark.suites.loading.adapter import LoadingJob
    from skymark.suites.loading.dataset.canonical import Element
    from skymark.suites.loading.scenario import Batch, Scenario


Mixing = Literal["schedule", "draws", "worker draws"]
"""How a library picks the source of the next element: by an exact schedule; at random; or at random
in each worker, which goes through a share of every source by itself."""


class Mixture(Frozen):
    """Sources that follow one another in the data set, and the stream to be made of them.

    Each source is gone through again and again, each element once in every pass.
    """

    sizes: tuple[int, ...]
    """Elements of each source."""
    weights: tuple[float, ...]
    """Share of each source in the stream; their sum is 1."""
    elements: int
    """How many elements of the stream are an epoch."""

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """The first element of each source, and the one after its last."""
        return list(pairwise(accumulate(self.sizes, initial=0)))

    def share(self, worker: int, workers: int, batch_size: int) -> int:
        """Return the elements of an epoch that one of several workers makes, batches in turn."""
        starts = range(worker * batch_size, self.elements, workers * batch_size)
        return sum(min(batch_size, self.elements - start) for start in starts)


def bucket_of(element: Element, scenario: Scenario) -> int:
    """Return the length bucket of a transformed element; 0 where the scenario has no buckets.

    Bucket k holds the lengths above boundary k - 1 up to and with boundary k.
    """
    field = scenario.length_field
    return bisect_left(scenario.bucket_boundaries, len(element[field])) if field else 0


def batches_of(elements: Iterable[Element], job: LoadingJob) -> Iterator[Batch]:
    """Group transformed elements into plain batches or by length bucket, as the scenario says.

    With bucket boundaries, elements gather per bucket and a bucket is delivered when it is full;
    what is left comes at the end, bucket by bucket (unless `drop_last`).
    """
    scenario = job.scenario
    waiting: list[list[Element]] = [[] for _ in range(len(scenario.bucket_boundaries) + 1)]
    for element in elements:
        bucket = bucket_of(element, scenario)
        group = waiting[bucket]
        group.append(element)
        if len(group) == job.batch_size:
            yield job.collate(group)
            waiting[bucket] = []
    if not job.drop_last:
        for group in waiting:
            if group:
                yield job.collate(group)


@dataclass(frozen=True)
class Batches:
    """`batches_of` as an iterable that can be sent to a worker process and iterated there."""

    elements: Iterable[Element]
    job: LoadingJob

    def __iter__(self) -> Iterator[Batch]:
        return batches_of(self.elements, self.job)
