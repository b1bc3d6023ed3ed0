"""The steady stream of an epoch: its batches after the restart and after those made during it.

A warm-up epoch without time for all of it needs a part of its stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skymark.measure.loop import GoOn, Pass
    from skymark.suites.loading.adapter import LoadingJob

FEWEST_FILLINGS = 4
"""Least length of an epoch with a stream, in fillings of the queues: it separates the restart."""

NO_STREAM = "no steady stream"
"""The beginning of the condition of a round without a stream."""

FEWEST_EPOCHS = 4
"""Least epochs without a stream for a rate, if the time suffices."""


@dataclass(frozen=True)
class Stream:
    """The steady part of one epoch, or of several."""

    elements: int = 0
    ns: int = 0
    busy_ns: int = 0
    """Time of an accelerator's computation, or of sleep in its place."""

    def plus(self, other: Stream) -> Stream:
        """Return the sum of two streams."""
        return Stream(
            self.elements + other.elements, self.ns + other.ns, self.busy_ns + other.busy_ns
        )


def queued_batches(job: LoadingJob) -> int:
    """Return the batches that a job's queues hold: workers × `prefetch`."""
    return max(1, job.workers) * job.prefetch


def epoch_batches(elements: int, batch_size: int, world: int = 1) -> int:
    """Return the batches of an epoch with `elements` elements, on each of `world` ranks."""
    return -(-elements // batch_size // world)


def has_stream(job: LoadingJob) -> bool:
    """Whether a job's epochs are `FEWEST_FILLINGS` times as long as its queues."""
    batches = epoch_batches(len(job.dataset), job.batch_size, job.world)
    return batches >= FEWEST_FILLINGS * queued_batches(job)


def lead_of(job: LoadingJob) -> int:
    """Return the batches at an epoch's start before its stream; 0 without a stream.

    Before the first batch arrives, a library may fill its queues. These batches arrive at once, and
    would make the stream look too fast. Their number is the same for each library, so that all are
    measured over the same batches.
    """
    return queued_batches(job) if has_stream(job) else 0


def larger_set(job: LoadingJob, batch_size: int | None, *, has_more: bool) -> str:
    """Return the smallest size with a stream in the job's epochs, in words.

    Args:
        job: the job with its settings.
        batch_size: the user's batch size; None for each variant's own.
        has_more: whether a larger variant has more elements of its data.
    """
    scenario, least = job.scenario, FEWEST_FILLINGS * queued_batches(job)
    large = {
        name: size.elements
        for name, size in scenario.sizes().items()
        if has_more
        and epoch_batches(size.elements, batch_size or size.batch_size, job.world) >= least
    }
    needed = f"give it {least * job.batch_size * job.world:,} elements"
    if not large:
        return needed
    return f"{scenario.id}:{min(large, key=lambda name: large[name])} has one, or {needed}"


def stream_of_pass(done: Pass, lead: int) -> Stream:
    """Return the stream of a pass: the part after its lead, think time included.

    In slices, it reaches from the first wait after the lead that no edge cut to the last. The rate
    contains the waits between them that are cut, in the time in which the processes ran: a long
    wait is cut more often, so the rate would be too high without them.
    """
    import numpy as np

    end = len(done.wait_ns)
    if done.is_cut:
        whole = [number for number, cut in enumerate(done.is_cut) if number >= lead and not cut]
        lead, end = (whole[0], whole[-1] + 1) if whole else (end, end)
    waits = done.wait_ns[lead:end]
    consuming_ns, busy_ns = (
        ns * len(waits) // max(1, len(done.wait_ns)) for ns in (done.think_ns, done.busy_ns)
    )
    elements = sum(int(np.asarray(index).size) for index in done.indices[lead:end])
    return Stream(elements, sum(waits) + consuming_ns, busy_ns)


def stream_of_ranks(passes: Sequence[Pass], lead: int) -> Stream:
    """Return the joint stream of simultaneous passes: its time is the longest stream's."""
    streams = [stream_of_pass(done, lead) for done in passes]
    longest = max(streams, key=lambda one: one.ns)
    return Stream(sum(one.elements for one in streams), longest.ns, longest.busy_ns)


@dataclass(frozen=True)
class Enough:
    """Sufficient part of a warm-up epoch that cannot end in time.

    An epoch longer than the round's limit is stopped in any case. After the library has filled its
    queues and enough batches for the verification have arrived, the rest would only take time from
    other rounds.
    """

    batches: int
    """Least batches after the first."""
    of_batches: int
    """Batches of the whole epoch."""
    stream_ns: int
    """Least time after its first batch."""
    is_always: bool = False
    """Whether it also suffices for an epoch that would end in time."""

    def within(self, most_ns: int) -> GoOn:
        """Return the rule of continuation for an epoch with the limit `most_ns`."""
        return partial(self.go_on_ns, most_ns)

    def go_on_ns(self, most_ns: int, arrived: int, first_ns: int, last_ns: int) -> int:
        """Return the time in ns that the epoch continues before the next call; 0 at its end.

        Args:
            most_ns: time limit of an epoch.
            arrived: batches that have arrived, at least one.
            first_ns: time from the epoch's start to the first of them.
            last_ns: time from its start to the last of them.
        """
        streamed_ns = last_ns - first_ns
        if arrived > max(1, self.batches) and streamed_ns >= self.stream_ns:
            whole_ns = first_ns + streamed_ns * (self.of_batches - 1) / (arrived - 1)
            if self.is_always or whole_ns > most_ns:
                return 0
        return max(0, min(max(self.stream_ns, 1), most_ns - last_ns))


def least_batches(batches: int, most_ns: int) -> GoOn:
    """Return the rule of continuation after an epoch's time: until enough batches have arrived.

    Args:
        batches: least number of batches; 0 to end the epoch at once.
        most_ns: time limit in any case.
    """
    return lambda arrived, _, last_ns: int(arrived < batches and last_ns < most_ns)
