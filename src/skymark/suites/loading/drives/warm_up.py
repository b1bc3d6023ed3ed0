"""The sufficient part of an epoch for a round without time for all of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from skymark.measure.loop import GoOn


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
