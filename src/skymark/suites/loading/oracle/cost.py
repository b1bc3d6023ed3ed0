"""Check the cost: the timed work was done in the timed region, not kept or done before."""

from __future__ import annotations

from dataclasses import dataclass

from skymark.model.record import Cause
from skymark.suites.loading.oracle.oracle import Check, Oracle

LEAST_SHARE = 0.5
"""Least share of the reference's CPU time per element, for adapters that run its functions. Seven
scenarios with media in five such libraries took 1.0 of it or more. Cached decoded batches of images
take 0.5 to 0.9, depending on the scenario."""

LEAST_NATIVE_SHARE = 0.25
"""Least share for a library's own operators; DALI and TensorFlow take 0.9 and more."""

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
    """The CPU time suffices to decode the delivered media."""

    cpu_s: float | None
    """CPU time of all processes in the measured epochs; None if unknown. The engine's own
    measurement takes precedence."""
    elements: int
    """Elements delivered in the measured epochs."""

    def fault(self, oracle: Oracle) -> Cause | None:
        """Look for elements that were delivered without the CPU time to make them."""
        cpu_s = self.cpu_s if oracle.seen_cpu_s is None else oracle.seen_cpu_s
        needed_s = least_s(oracle, self.elements)
        if cpu_s is None or needed_s is None or cpu_s >= needed_s:
            return None
        whole_s = oracle.reference_s * self.elements
        return Cause(
            kind="kept-work",
            message=f"the measured epochs took {cpu_s / whole_s:.0%} of the reference's CPU time "
            f"per element, and this work needs {needed_s / whole_s:.0%} at least: the loader kept "
            "results of an earlier epoch; if it does so by design, its adapter must declare "
            "`caches`",
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
        needed_s = least_s(oracle, self.elements)
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
            message=f"the object server sent {share:.0%} of the bytes of the elements delivered in "
            "the measured epochs: the rest came from a copy; if the loader keeps copies by design, "
            "its adapter must declare `caches`",
        )
