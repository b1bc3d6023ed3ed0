"""Slices of a timed region, in which its processes ran; between them they were frozen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from skymark.measure.loop import Pass

OPEN = (1 << 63) - 1
"""End of a slice that goes on to the end of the region."""


@dataclass(frozen=True)
class Slices:
    """The slices of a round that is measured in turn with a round of another revision.

    Times are in ns of `time.perf_counter_ns`, which all processes of a machine share on Linux.
    """

    spans: tuple[tuple[int, int], ...]
    """Beginning and end of each slice, in order. A slice with the end `OPEN` had no counterpart:
    the other side had ended."""

    def live_part(self, done: Pass) -> Pass:
        """Return a pass in the time in which its processes ran.

        The time in which they were frozen is no part of a wait. Waits that did not begin and end in
        the same slice are marked as cut.

        Args:
            done: a pass of the region, without work between its waits.
        """
        import numpy as np

        asked = np.asarray(done.asked_ns, np.int64)
        count = len(done.wait_ns)
        arrived = asked[:count] + np.asarray(done.wait_ns, np.int64)
        live = self._live_before(arrived) - self._live_before(asked[:count])
        begins = np.array([begin for begin, _ in self.spans], np.int64)
        ends = np.array([0 if end == OPEN else end for _, end in self.spans], np.int64)
        place = np.searchsorted(begins, asked[:count], "right") - 1
        is_whole = (place >= 0) & (arrived <= ends[np.maximum(place, 0)])
        rest_ns = done.wall_ns - sum(done.wait_ns) - done.think_ns
        last = asked[-1:]
        rest = self._live_before(last + rest_ns) - self._live_before(last)
        return replace(
            done,
            wait_ns=live.tolist(),
            wall_ns=int(live.sum() + (rest.sum() if len(asked) > count else 0)),
            is_cut=(~is_whole).tolist(),
        )

    def _live_before(self, moments: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the time in slices before each moment, int64 ns."""
        import numpy as np

        begins, ends = np.array(self.spans, np.int64).T
        lengths = np.cumsum(ends[:-1] - begins[:-1])
        before = np.concatenate([[0], lengths])
        place = np.searchsorted(begins, moments, "right") - 1
        inside = np.minimum(moments, ends[np.maximum(place, 0)]) - begins[np.maximum(place, 0)]
        return np.where(place < 0, 0, before[np.maximum(place, 0)] + inside)
