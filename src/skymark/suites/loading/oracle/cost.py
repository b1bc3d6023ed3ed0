"""Check the cost: the timed work was done in the timed region, not kept or done before."""

from __future__ import annotations

from dataclasses import dataclass

from skymark.model.record import Cause
from skymark.model.sizes import percent
from skymark.suites.loading.oracle.oracle import Check, Oracle

LEAST_SHARE = 0.8
"""Least share of the reference's CPU time per element, for adapters that run its functions. Seven
scenarios with media in five such libraries took 1.0 of it or more. Cached decoded batches of images
take 0.5 to 0.9, depending on the scenario."""

LEAST_DISTURBED_SHARE = 0.5
"""The same where others took processors, and for the time of a stream, of which the queues have
made a part before."""

LEAST_NATIVE_SHARE = 0.25
"""Least share for a library's own operators; DALI and TensorFlow take 0.9 and more."""

LEAST_MEASURED_S = 100e-6
"""Least time of the reference per element that is measured well enough."""

LEAST_FETCHED = 0.5
"""Least share of the delivered bytes that must be fetched in the measured epochs. The rest may be
fetched ahead."""


LEAST_OF_FIRST = 0.6
"""Least share of the CPU time per element that the middle of the first epoch took."""

LEAST_CPU_S = 0.1
"""Least CPU time that tells anything, counted in ticks of 10 ms for each ended process."""

LEAST_FIRST_CPU_S = 0.03
"""The same in the middle of an epoch, where processes rarely end."""

SWITCH_CPU_S = 20e-6
"""CPU time of a switch between threads. A library that tunes itself in the first epoch may switch
more often there: tf.data ten times as often, at 5 to 18 µs each on a virtual machine."""

FILLINGS = 4
"""Fillings of the queues that a library may hold beyond what was asked for, in pipes or unfinished:
Grain holds two."""

MADE_IN_PAUSE = 0.1
"""Largest share of the measured elements that may be made in a pause besides."""

LEAST_ALONE = 0.7
"""Least rate and cores of a single rank, as shares of what each of several ranks has. It has more
where it need not share the processors."""

LEAST_ALONE_CPU_S = 0.3
"""Least CPU time of a single rank beside which the start of its processes is little."""

MOST_ALONE = 1.5
"""Largest CPU time per element of a single rank, as such a share."""

LEAST_STORED = 4 << 20
"""Bytes of the smallest data set that a process has no room for in memory freed before."""

LEAST_HELD = 0.8
"""Least share of the data set that an eager loader holds in memory at its first batch."""


def least_s(oracle: Oracle, elements: int, least_share: float) -> float | None:
    """Return the least CPU seconds in which elements can be made on this machine.

    None if a library's operators work on whole batches, or the reference's time is too short to
    measure.

    Args:
        oracle: which has compared elements.
        elements: their number.
        least_share: least share of the reference's time for adapters that run its functions.
    """
    keeps = oracle.declared.caches in {"decoded", "finished"}
    is_own = oracle.scenario.encoded_media or not oracle.declared.native
    is_work = is_own and not keeps and oracle.content_elements > 0
    if not is_work or not elements or oracle.reference_s < LEAST_MEASURED_S:
        return None
    share = LEAST_NATIVE_SHARE if oracle.declared.native else least_share
    return share * oracle.reference_s * elements


@dataclass(frozen=True)
class CpuTime(Check):
    """The CPU time suffices to decode the delivered media."""

    cpu_s: float | None
    """CPU time of all processes in the measured epochs; None if unknown. The engine's own
    measurement takes precedence."""
    elements: int
    """Elements delivered in the measured epochs."""

    def fault(self, oracle: Oracle) -> Cause | None:
        """Look for elements that were delivered without the CPU time to make them."""
        cpu_s = self.cpu_s if oracle.seen_cpu_s is None else oracle.seen_cpu_s
        least = LEAST_SHARE if oracle.is_quiet else LEAST_DISTURBED_SHARE
        needed_s = least_s(oracle, self.elements, least)
        if cpu_s is None or needed_s is None or cpu_s >= needed_s:
            return None
        whole_s = oracle.reference_s * self.elements
        return Cause(
            kind="kept-work",
            message=f"the measured epochs took {percent(cpu_s / whole_s)} of the reference's CPU "
            f"time per element, and this work needs {percent(needed_s / whole_s)} at least: the "
            "loader kept results of an earlier epoch; if it does so by design, its adapter must "
            "declare `caches`",
        )


@dataclass(frozen=True)
class FirstCost(Check):
    """The measured epochs took about the CPU time per element of the first epoch."""

    cpu_s: float
    """CPU time of a part of epoch 0."""
    elements: int
    """Elements of that part."""
    switches: int
    """Switches between the main process's threads in that part."""
    measured_elements: int

    def fault(self, oracle: Oracle) -> Cause | None:
        """Look for work that was done in the first epoch only.

        A virtual machine may be slow in one epoch 0, so the least cost of all rounds counts.
        """
        if oracle.declared.caches != "nothing" or self.cpu_s < LEAST_FIRST_CPU_S:
            return None
        work_s = max(0.0, self.cpu_s - SWITCH_CPU_S * self.switches) / self.elements
        oracle.least_first_s = min(oracle.least_first_s, work_s)
        if not oracle.is_quiet:  # other programs may have slowed epoch 0 alone
            return None
        if oracle.seen_cpu_s is None or not self.measured_elements:
            return None
        measured_s = oracle.seen_cpu_s / self.measured_elements
        if measured_s >= LEAST_OF_FIRST * oracle.least_first_s:
            return None
        share = measured_s / oracle.least_first_s
        return Cause(
            kind="kept-work",
            message=f"the measured epochs took {percent(share)} of the CPU time per element of "
            "epoch 0: the loader kept results of an earlier epoch; if it does so by design, its "
            "adapter must declare `caches`",
        )


@dataclass(frozen=True)
class PauseTime(Check):
    """While no clock ran, the loader filled its queues and made no more batches."""

    cpu_s: float
    """CPU time of the loader in the pause."""
    queued: int
    """Elements that the queues hold."""
    elements: int
    """Elements delivered in the measured epochs."""

    def fault(self, oracle: Oracle) -> Cause | None:
        """Look for a pause in which more elements were made than the queues hold."""
        if not oracle.seen_cpu_s or not self.elements or self.cpu_s < LEAST_CPU_S:
            return None
        made = self.cpu_s / oracle.seen_cpu_s * self.elements
        if made <= FILLINGS * self.queued + MADE_IN_PAUSE * self.elements:
            return None
        return Cause(
            kind="worked-ahead",
            message=f"the loader had the CPU time for {made:,.0f} elements while no clock ran, and "
            f"its queues hold {self.queued:,}; if it works ahead by design, its adapter must "
            "declare `works_ahead`",
        )


@dataclass(frozen=True)
class SingleRank(Check):
    """A single rank works as one of several does, so that efficiency is relative to its best.

    The figures are shares of those of each of several ranks.
    """

    cpu_s: float
    """CPU time of the single rank."""
    cost: float
    """CPU time per element."""
    rate: float
    """Elements per second in which it was not kept from the processors."""
    cores: float
    """Processors that it used or was ready to use."""

    def fault(self, oracle: Oracle) -> Cause | None:
        """Look for a single rank that is slow."""
        del oracle
        slow = min(self.rate, self.cores) < LEAST_ALONE or self.cost > MOST_ALONE
        if not slow or self.cpu_s < LEAST_ALONE_CPU_S:
            return None
        return Cause(
            kind="slow-single-rank",
            message=f"a single rank had {percent(self.rate)} of the rate of each of several ranks, "
            f"{percent(self.cores)} of its processors and {percent(self.cost)} of its CPU time per "
            "element: it must work as they do, because the scaling efficiency is relative to it",
        )


@dataclass(frozen=True)
class HeldInMemory(Check):
    """An eager loader holds the data set in memory when its first batch arrives."""

    grown_bytes: int
    """Growth of the process tree's own memory since before the loader was opened."""

    def fault(self, oracle: Oracle) -> Cause | None:
        """Look for a loader that has not loaded everything."""
        columns = (oracle.dataset.column(column.name) for column in oracle.dataset.columns)
        stored = sum(values.nbytes for values in columns)
        if stored < LEAST_STORED or self.grown_bytes >= LEAST_HELD * stored:
            return None
        return Cause(
            kind="not-eager",
            message=f"the loader's memory had grown by {self.grown_bytes:,} bytes at its first "
            f"batch, and the data set has {stored:,}: an eager loader loads everything before",
        )


@dataclass(frozen=True)
class StreamTime(Check):
    """A steady stream takes at least the time that all processors together need for it."""

    stream_s: float
    """Time of all measured epochs, without their restarts."""
    elements: int
    """Elements delivered in the streams."""
    cores: int

    def fault(self, oracle: Oracle) -> Cause | None:
        """Look for a stream that was made while epochs restarted."""
        needed_s = least_s(oracle, self.elements, LEAST_DISTURBED_SHARE)
        if needed_s is None or self.stream_s >= needed_s / self.cores:
            return None
        return Cause(
            kind="worked-ahead",
            message=f"the {self.elements:,} elements of the steady stream arrived in "
            f"{self.stream_s:.3g} s, and {self.cores} processors need {needed_s / self.cores:.3g} "
            "s at least: the loader made them while epochs restarted; if it works ahead by design, "
            "its adapter must declare `works_ahead`",
        )


@dataclass(frozen=True)
class FetchedBytes(Check):
    """The delivered elements come from the object server."""

    sent_bytes: int
    """Bytes sent by the server in the measured epochs."""
    elements: int
    """Elements delivered in the measured epochs."""
    stored_bytes: int
    """Bytes of all elements of the data set."""

    def fault(self, oracle: Oracle) -> Cause | None:
        """Look for elements that came from a copy."""
        needed_bytes = self.stored_bytes * self.elements / len(oracle.dataset)
        if oracle.declared.caches != "nothing" or not needed_bytes:
            return None
        if (share := self.sent_bytes / needed_bytes) >= LEAST_FETCHED:
            return None
        return Cause(
            kind="kept-objects",
            message=f"the object server sent {percent(share)} of the bytes of the elements "
            "delivered in the measured epochs: the rest came from a copy; if the loader keeps "
            "copies by design, its adapter must declare `caches`",
        )
