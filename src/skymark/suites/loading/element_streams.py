"""Batches from a stream of elements, plain or by length bucket.

For libraries that batch plainly only: this is the Python generator that their users write.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skymark.suites.loading.adapter import LoadingJob
    from skymark.suites.loading.dataset.canonical import Element
    from skymark.suites.loading.scenario import Scenario
    from skymark.suites.loading.work import Batch


def bucket_of(element: Element, scenario: Scenario) -> int:
    """Return the length bucket of a transformed element; 0 if the scenario has no buckets.

    Bucket k holds the lengths above boundary k - 1 up to and with boundary k.
    """
    field = scenario.length_field
    return bisect_left(scenario.bucket_boundaries, len(element[field])) if field else 0


def batches_of(elements: Iterable[Element], job: LoadingJob) -> Iterator[Batch]:
    """Group transformed elements into plain batches or by length bucket, as the scenario requires.

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
    """`batches_of` as an iterable for a worker process; it can be sent there."""

    elements: Iterable[Element]
    job: LoadingJob

    def __iter__(self) -> Iterator[Batch]:
        return batches_of(self.elements, self.job)
