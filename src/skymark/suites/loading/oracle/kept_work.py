"""Work that was not done when it was timed: kept from earlier, or done before a stream began."""

from __future__ import annotations

from skymark.model.record import Cause

LEAST_SHARE = 0.5
"""Part of the reference's CPU time per element below which an adapter that runs the reference's own
functions cannot have run them. Of seven scenarios with media in five such libraries, none took
less than 1.0 of it; a batch whose images were kept decoded takes 0.5 to 0.9, by the scenario."""

LEAST_NATIVE_SHARE = 0.25
"""The same for a library's own operators; DALI and TensorFlow take 0.9 of it and more."""

LEAST_MEASURED_S = 100e-6
"""Work of the reference per element below which its time says nothing."""

LEAST_FETCHED = 0.5
"""Part of the delivered elements' bytes that must have been fetched meanwhile; the rest may have
been fetched ahead."""


def kept_work(cpu_s: float, elements: int, reference_s: float, *, native: bool) -> Cause | None:
    """Look for elements that were delivered without the CPU time to make them.

    Args:
        cpu_s: CPU seconds of the process tree in the measured epochs.
        elements: what it delivered in them.
        reference_s: CPU seconds of the NumPy reference per element, on this machine.
        native: whether the library's own operators did the work.
    """
    least = _least_share(native=native)
    if not elements or reference_s < LEAST_MEASURED_S:
        return None
    share = cpu_s / elements / reference_s
    if share >= least:
        return None
    return Cause(
        kind="kept-work",
        message=f"the measured epochs took {share:.0%} of the CPU time per element that the "
        f"reference takes here, and the least with which this work can be done is {least:.0%}: "
        "results of an earlier epoch were kept; an adapter that keeps them declares it in `caches`",
    )


def _least_share(*, native: bool) -> float:
    return LEAST_NATIVE_SHARE if native else LEAST_SHARE


def worked_ahead(
    stream_s: float, elements: int, reference_s: float, cores: int, *, native: bool
) -> Cause | None:
    """Look for a stream that was delivered in less time than all processors take to make it.

    Args:
        stream_s: time of the streams of all measured epochs, without their restarts.
        elements: what was delivered in them.
        reference_s: CPU seconds of the NumPy reference per element, on this machine.
        cores: processors of the machine.
        native: whether the library's own operators did the work.
    """
    if not elements or reference_s < LEAST_MEASURED_S:
        return None
    needed_s = _least_share(native=native) * reference_s * elements / cores
    if stream_s >= needed_s:
        return None
    return Cause(
        kind="worked-ahead",
        message=f"the {elements:,} elements of the steady stream arrived in {stream_s:.3g} s, and "
        f"{cores} processors take {needed_s:.3g} s at least to make them: they were made while "
        "epochs restarted; an adapter that works so far ahead declares it in `works_ahead`",
    )


def kept_objects(sent_bytes: int, needed_bytes: float) -> Cause | None:
    """Look for elements that were delivered without being fetched.

    Args:
        sent_bytes: what the object server sent in the measured epochs.
        needed_bytes: the objects of the elements delivered in them.
    """
    if not needed_bytes or (share := sent_bytes / needed_bytes) >= LEAST_FETCHED:
        return None
    return Cause(
        kind="kept-objects",
        message=f"the object server sent {share:.0%} of the bytes of the elements delivered in the "
        "measured epochs: the others came from a copy; an adapter that keeps one declares it in "
        "`caches`",
    )
