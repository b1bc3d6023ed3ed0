"""What a worker claims of a round, against what was seen, and work kept from earlier."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from skymark.model.record import Cause

if TYPE_CHECKING:
    from skymark.model.record import RoundResult
    from skymark.suite.contract import Seen


SLACK_S = 1.0
"""Time in a timed region that skymark may need for itself: copies of kept batches, for instance."""

LARGEST_SHARE = 2.0
"""The timed region by the engine's clock over the time that the worker claims, at most."""

ROUNDING = 1e-6
"""Relative, of figures that are computed twice."""


def claimed_time(claim: RoundResult, seen: Seen, *, in_region: bool) -> Cause | None:
    """Look for a timed region that took far longer by the engine's clock than the worker says.

    Args:
        claim: what the worker says.
        seen: what the engine saw.
        in_region: whether opening the loader and the warm-up epoch are part of the timed region.
    """
    claimed_s = (claim.timed_ns + _uncounted_ns(claim)) / 1e9
    if in_region:
        claimed_s = claim.setup_s + claimed_s * _all_over_measured_waits(claim)
    if seen.wall_s is None or seen.wall_s <= LARGEST_SHARE * claimed_s + SLACK_S:
        return None
    return Cause(
        kind="claimed-time",
        message=f"the worker says that its timed region took {claimed_s:.3g} s, and it took "
        f"{seen.wall_s:.3g} s by the engine's clock",
    )


def _uncounted_ns(claim: RoundResult) -> int:
    """Return the waits of an epoch that came before the measured ones, after the warm-up.

    Only a round without a stream has one.
    """
    if "samples_per_s" in claim.metrics:
        return 0
    columns = (claim.samples[name] for name in ("wait_ns", "epoch", "warm_up"))
    rows = zip(*columns, strict=True)
    return sum(int(wait) for wait, epoch, warm_up in rows if epoch > 0 and warm_up)


def _all_over_measured_waits(claim: RoundResult) -> float:
    """Return the waits of all epochs, the warm-up included, over those of the measured ones."""
    pairs = zip(claim.samples["wait_ns"], claim.samples["warm_up"], strict=True)
    measured = sum(wait for wait, warm_up in pairs if not warm_up)
    return sum(claim.samples["wait_ns"]) / measured if measured else 1.0


def claimed_stream(claim: RoundResult, queued: int) -> tuple[float, int]:
    """Return the time of a round's streams in s, think time included, and the elements made in it.

    A library that works ahead without bounds has no stream apart from its restarts. Batches that
    wait in queues when such an epoch begins were made before.

    Args:
        claim: what the worker says.
        queued: batches that all queues hold.
    """
    columns = (claim.samples[name] for name in ("elements", "stream", "epoch"))
    measured = [row for row in zip(*columns, strict=True) if row[2] > 0]
    streamed = int(sum(count for count, counts, _ in measured if counts))
    made = streamed
    if all(counts for _, counts, _ in measured):
        arrived: Counter[float] = Counter()
        for count, _, epoch in measured:
            arrived[epoch] += 1
            made -= int(count) if arrived[epoch] <= queued else 0
    rate = claim.metrics.get("samples_per_s")
    return (streamed / rate if rate else float("inf")), made


def claimed_figures(claim: RoundResult, handed_over: int, ranks: int = 1) -> Cause | None:
    """Look for elements that nobody saw, and for rates that do not follow from what was timed.

    Args:
        claim: what the worker says.
        handed_over: elements whose indices the judge was given, those of the warm-up included.
        ranks: how many waited at the same time.
    """
    figures, samples = claim.metrics, claim.samples
    elements, timed_s = figures["elements"], claim.timed_ns / 1e9
    if elements > handed_over:
        return Cause(
            kind="claimed-elements",
            message=f"the worker says that {elements:g} elements were delivered in the measured "
            f"epochs, and handed over the indices of {handed_over}",
        )
    columns = zip(samples["elements"], samples["wait_ns"], samples["stream"], strict=True)
    streamed = [(count, wait) for count, wait, counts in columns if counts]
    waited_s = sum(wait for _, wait in streamed) / ranks / 1e9
    most = sum(count for count, _ in streamed) / waited_s if waited_s else float("inf")
    wrong = {
        "epoch_samples_per_s": (figures["epoch_samples_per_s"], elements / timed_s),
        "samples_per_s": (figures.get("samples_per_s", 0.0), most),
    }
    for name, (says, follows) in wrong.items():
        if says > follows * (1 + ROUNDING):
            return Cause(
                kind="claimed-rate",
                message=f"the worker says that {name} is {says:.4g}, where {follows:.4g} at most "
                "follows from the elements and times that it names",
            )
    return None


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
