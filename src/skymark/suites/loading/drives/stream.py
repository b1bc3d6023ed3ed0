"""The steady stream of an epoch: its batches after the restart and after those made during it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from skymark.measure.loop import Pass
    from skymark.suites.loading.adapter import LoadingJob

FEWEST_FILLINGS = 4
"""An epoch must fill the queues so many times for its restart to be told from its stream."""


@dataclass(frozen=True)
class Stream:
    """The steady part of one epoch, or of several."""

    elements: int = 0
    ns: int = 0
    busy_ns: int = 0
    """The part of it in which an accelerator computed, or was slept for."""

    def plus(self, other: Stream) -> Stream:
        """Return both together, one after the other."""
        return Stream(
            self.elements + other.elements, self.ns + other.ns, self.busy_ns + other.busy_ns
        )


def lead_of(job: LoadingJob) -> int:
    """Return the batches at an epoch's start that are no part of its stream; 0 if all are.

    While a library waits for its first batch it may make as many as its queues hold, workers ×
    `prefetch`; they arrive at once, and would make the stream look faster than it is. They are as
    many for each library, so that all are measured over the same batches. Where epochs are not
    `FEWEST_FILLINGS` times as long, nothing is left out: their rate includes restarts.
    """
    lead = max(1, job.workers) * job.prefetch
    batches = -(-len(job.dataset) // job.batch_size // job.world)
    return lead if batches >= FEWEST_FILLINGS * lead else 0


def stream_of_pass(done: Pass, lead: int) -> Stream:
    """Return the stream of a pass: what comes after its lead, think time included."""
    waits = done.wait_ns[lead:]
    consuming_ns, busy_ns = (
        ns * len(waits) // max(1, len(done.wait_ns)) for ns in (done.think_ns, done.busy_ns)
    )
    elements = sum(int(np.asarray(index).size) for index in done.indices[lead:])
    return Stream(elements, sum(waits) + consuming_ns, busy_ns)


def stream_of_ranks(passes: Sequence[Pass], lead: int) -> Stream:
    """Return the stream of passes that ran at the same time: it lasts as long as the longest."""
    streams = [stream_of_pass(done, lead) for done in passes]
    longest = max(streams, key=lambda one: one.ns)
    return Stream(sum(one.elements for one in streams), longest.ns, longest.busy_ns)
