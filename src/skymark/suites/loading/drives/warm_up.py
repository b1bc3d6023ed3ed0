"""The least part of an epoch that suffices where a round has no time for all of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from skymark.measure.loop import GoOn


@dataclass(frozen=True)
class Enough:
    """Least part of a warm-up epoch that cannot end in time.

    What would take longer than a round may is stopped before its end in any case. Once the library
    has filled its queues and the content of enough batches can be verified, the rest would only
    take time from other rounds.
    """

    batches: int
    """Batches that have to arrive, besides the first."""
    of_batches: int
    """Batches of the whole epoch."""
    stream_ns: int
    """Time that it has to go on after its first batch."""
    is_always: bool = False
    """Whether it suffices of an epoch that would end in time, too."""

    def within(self, most_ns: int) -> GoOn:
        """Return until when an epoch goes on that is stopped after `most_ns`."""
        return partial(self.go_on_ns, most_ns)

    def go_on_ns(self, most_ns: int, arrived: int, first_ns: int, last_ns: int) -> int:
        """Return for how many ns more the epoch goes on, until it is asked for again; 0 at its end.

        Args:
            most_ns: what takes longer cannot end in time.
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
    """Return until when an epoch goes on whose time is over: until so many batches have arrived.

    Args:
        batches: 0 to end it at once.
        most_ns: time after which it ends in any case.
    """
    return lambda arrived, _, last_ns: int(arrived < batches and last_ns < most_ns)
