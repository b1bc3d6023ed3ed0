"""Check the cost: the timed work was done in the timed region, not kept or done before."""

from __future__ import annotations

from dataclasses import dataclass

from skymark.model.record import Cause
from skymark.suites.loading.oracle.oracle import Check, Oracle

LEAST_SHARE = 0.5
"""Least share of the reference's CPU time per element, for adapters that run its functions. Seven
scenarios with media in five such libraries took 1.0 of it or more. Batches of images that were kept
decoded take 0.5 to 0.9, depending on the scenario."""

LEAST_NATIVE_SHARE = 0.25
"""The same for a library's own operators; DALI and TensorFlow take 0.9 of it and more."""

LEAST_MEASURED_S = 100e-6
"""Least time of the reference per element that is measured well enough."""

LEAST_FETCHED = 0.5
"""Least share of the delivered bytes that must be fetched in the measured epochs. The rest may be
fetched ahead."""


def least_s(oracle: Oracle, elements: int) -> float | None:
    """Return the least CPU seconds in which elements can be made on this machine.

    None if elements need no decoding of their own, or the reference's time is too short to measure.
    """
    keeps = oracle.declared.caches in {"decoded", "finished"}
    is_work = oracle.scenario.encoded_media and not keeps and oracle.content_elements > 0
    if not is_work or not elements or oracle.reference_s < LEAST_MEASURED_S:
        return None
    share = LEAST_NATIVE_SHARE if oracle.declared.native else LEAST_SHARE
    return share * oracle.reference_s * elements


@dataclass(frozen=True)
class CpuTime(Check):
    """Enough CPU time is used to decode what is delivered, where media are."""

    cpu_s: float | None
    """Of all processes in the measured epochs; None if unknown. The engine's own measurement takes
    precedence."""
    elements: int
    """Delivered in the measured epochs."""

    def fault(self, oracle: Oracle) -> Cause | None:
        """Look for elements that were delivered without the CPU time to make them."""
        cpu_s = self.cpu_s if oracle.seen_cpu_s is None else oracle.seen_cpu_s
        needed_s = least_s(oracle, self.elements)
        if cpu_s is None or needed_s is None or cpu_s >= needed_s:
            return None
        whole_s = oracle.reference_s * self.elements
        return Cause(
            kind="kept-work",
            message=f"the measured epochs took {cpu_s / whole_s:.0%} of the CPU time per element "
            "that the reference takes here, and the least with which this work can be done is "
            f"{needed_s / whole_s:.0%}: results of an earlier epoch were kept; an adapter that "
            "keeps them declares it in `caches`",
        )


@dataclass(frozen=True)
class StreamTime(Check):
    """A steady stream takes the time in which all processors together can make it."""

    stream_s: float
    """Of all measured epochs, without their restarts."""
    elements: int
    """Delivered in the streams."""
    cores: int

    def fault(self, oracle: Oracle) -> Cause | None:
        """Look for a stream that was made while epochs restarted."""
        needed_s = least_s(oracle, self.elements)
        if needed_s is None or self.stream_s >= needed_s / self.cores:
            return None
        return Cause(
            kind="worked-ahead",
            message=f"the {self.elements:,} elements of the steady stream arrived in "
            f"{self.stream_s:.3g} s, and {self.cores} processors take {needed_s / self.cores:.3g} "
            "s at least to make them: they were made while epochs restarted; an adapter that works "
            "so far ahead declares it in `works_ahead`",
        )


@dataclass(frozen=True)
class FetchedBytes(Check):
    """Elements that are delivered are fetched from the object server."""

    sent_bytes: int
    """Sent by the server in the measured epochs."""
    elements: int
    """Delivered in them."""
    stored_bytes: int
    """Of all elements of the data set."""

    def fault(self, oracle: Oracle) -> Cause | None:
        """Look for elements that came from a copy."""
        needed_bytes = self.stored_bytes * self.elements / len(oracle.dataset)
        if oracle.declared.caches != "nothing" or not needed_bytes:
            return None
        if (share := self.sent_bytes / needed_bytes) >= LEAST_FETCHED:
            return None
        return Cause(
            kind="kept-objects",
            message=f"the object server sent {share:.0%} of the bytes of the elements delivered in "
            "the measured epochs: the others came from a copy; an adapter that keeps one declares "
            "it in `caches`",
        )
