"""Check a worker's claims of a round: by the engine's clock, and by the worker's evidence."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skymark.model.record import Cause
from skymark.suites.loading.oracle.oracle import Check, Oracle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from skymark.model.record import RoundResult

LARGEST_SHARE = 1.05
"""Largest ratio of the timed region by the engine's clock to the worker's claim, apart from the
time of skymark itself."""

LARGEST_DISTURBED_SHARE = 2.0
"""The same where others took processors, and where a region is measured in slices, whose cut waits
are in no claim."""

DISTURBED_S = 1.0
"""Time of skymark itself where others took processors, and its processes had to wait for them."""

SLACK_S = 0.1
"""Time of skymark itself in a timed region: the messages at both ends."""

EPOCH_S = 3e-3
"""Its time for each epoch."""

BATCH_S = 50e-6
"""Its time for each batch: the copy of the index, and the inspection of one batch in 16."""

KEPT_BYTES_PER_S = 2**28
"""Its speed of copying kept batches, beside a loader that keeps all processors busy."""

STOP_S = 2.0
"""Time in which a library ends the work that it has begun when an epoch is stopped."""

ROUNDING = 1e-6
"""Relative difference of figures that are computed twice."""


@dataclass(frozen=True)
class ClaimedTime(Check):
    """The timed region by the engine's clock is about as long as the worker claims.

    Made after the checks of the evidence, which tell how much skymark itself had to do.
    """

    claim: RoundResult
    wall_s: float | None
    """Time by the engine's clock; None without a timed region."""
    in_region: bool
    """Whether opening the loader and the warm-up epoch are part of the timed region."""

    def fault(self, oracle: Oracle) -> Cause | None:
        """Look for a claim of too little time."""
        claimed_s = (self.claim.timed_ns + self._uncounted_ns()) / 1e9
        if self.in_region:
            claimed_s = self.claim.setup_s + claimed_s * self._all_over_measured_waits()
        share, own_s = LARGEST_SHARE, self._own_s(oracle)
        if "cut_waits" in self.claim.metrics:  # waits at the edges of slices are left out
            share, own_s = LARGEST_DISTURBED_SHARE, own_s + STOP_S
        elif not oracle.is_quiet:
            share, own_s = LARGEST_DISTURBED_SHARE, own_s + DISTURBED_S
        if self.wall_s is None or self.wall_s <= share * claimed_s + own_s:
            return None
        return Cause(
            kind="claimed-time",
            message=f"the worker claims {claimed_s:.3g} s for its timed region, and it took "
            f"{self.wall_s:.3g} s by the engine's clock",
        )

    def _own_s(self, oracle: Oracle) -> float:
        """Return the longest time that skymark itself may take in the timed region."""
        epochs = self.claim.samples["epoch"]
        return (
            SLACK_S
            + EPOCH_S * len(set(epochs))
            + BATCH_S * len(epochs)
            + oracle.kept_bytes / KEPT_BYTES_PER_S
            + (STOP_S if oracle.was_stopped else 0.0)
        )

    def _uncounted_ns(self) -> int:
        """Return the waits of the unmeasured epoch after the warm-up.

        Only a round without a stream has such an epoch.
        """
        if "samples_per_s" in self.claim.metrics:
            return 0
        columns = (self.claim.samples[name] for name in ("wait_ns", "epoch", "warm_up"))
        rows = zip(*columns, strict=True)
        return sum(int(wait) for wait, epoch, warm_up in rows if epoch > 0 and warm_up)

    def _all_over_measured_waits(self) -> float:
        """Return all epochs' waits, with the warm-up, over the measured epochs' waits."""
        samples = self.claim.samples
        pairs = zip(samples["wait_ns"], samples["warm_up"], strict=True)
        measured = sum(wait for wait, warm_up in pairs if not warm_up)
        return sum(samples["wait_ns"]) / measured if measured else 1.0


@dataclass(frozen=True)
class ClaimedFigures(Check):
    """Figures count elements with delivered indices, and rates follow from the measured times.

    Made last, because the oracle must have counted the delivered indices.
    """

    claim: RoundResult
    ranks: int = 1
    """Number of ranks that waited at the same time."""

    def fault(self, oracle: Oracle) -> Cause | None:
        """Look for elements without an index, and for rates that are too high."""
        figures, samples = self.claim.metrics, self.claim.samples
        elements, timed_s = figures["elements"], self.claim.timed_ns / 1e9
        if elements > oracle.indexed_elements:
            return Cause(
                kind="claimed-elements",
                message=f"the worker claims {elements:g} elements in the measured epochs, and "
                f"delivered the indices of {oracle.indexed_elements}",
            )
        columns = zip(samples["elements"], samples["wait_ns"], in_stream(self.claim), strict=True)
        streamed = [(count, wait) for count, wait, counts in columns if counts]
        waited_s = sum(wait for _, wait in streamed) / self.ranks / 1e9
        most = sum(count for count, _ in streamed) / waited_s if waited_s else float("inf")
        wrong = {
            "epoch_samples_per_s": (figures["epoch_samples_per_s"], elements / timed_s),
            "samples_per_s": (figures.get("samples_per_s", 0.0), most),
        }
        for name, (says, follows) in wrong.items():
            if says > follows * (1 + ROUNDING):
                return Cause(
                    kind="claimed-rate",
                    message=f"the worker claims {says:.4g} for {name}, and its own elements and "
                    f"times allow {follows:.4g} at most",
                )
        return None


def in_stream(claim: RoundResult) -> Sequence[float]:
    """Return whether each wait belongs to a stream, whose rate the worker claims.

    In slices, an epoch's stream reaches from its first wait that was not cut to the last.
    """
    marked = claim.samples["stream"]
    if "cut_waits" not in claim.metrics:
        return marked
    ends: dict[float, tuple[int, int]] = {}
    for number, (epoch, counts) in enumerate(zip(claim.samples["epoch"], marked, strict=True)):
        if counts:
            ends[epoch] = ends.get(epoch, (number, number))[0], number
    inside = [0] * len(marked)
    for first, last in ends.values():
        inside[first : last + 1] = [1] * (last + 1 - first)
    return inside


@dataclass(frozen=True)
class UnchangedData(Check):
    """The data that the reference reads is as it was when the round began."""

    directory: Path
    started_at: datetime

    def fault(self, oracle: Oracle) -> Cause | None:
        """Look for files written or renamed since; nobody can set a file's time of change.

        A time yet to come is of a clock that was put back.
        """
        del oracle
        since, now = self.started_at.timestamp(), time.time()
        changed = [
            path for path in self.directory.rglob("*") if since < path.lstat().st_ctime <= now
        ]
        if not changed:
            return None
        return Cause(
            kind="changed-data",
            message=f"{min(changed)} was written during the round: the data must not change while "
            "a loader is measured; remove its directory, so that the next run makes it again",
        )


def claimed_stream(claim: RoundResult, queued: int) -> tuple[float, int]:
    """Return the time of a round's streams in s, think time included, and the elements made in it.

    A library that works ahead without bounds has no stream apart from its restarts. Batches in
    queues at the beginning of such an epoch were made before.

    Args:
        claim: claim of the worker.
        queued: batches that all queues hold.
    """
    columns = claim.samples["elements"], in_stream(claim), claim.samples["epoch"]
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
