"""Slices in turn: two live rounds of which one runs while the processes of the other are frozen.

What disturbs the machine for longer than a slice disturbs both sides alike, so that the ratio of
their rates shows little of it. Queues stay as they are when a side is frozen.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Sequence
from random import Random

from skymark.machine.freezer import FreezeError, Freezer, freezer_of
from skymark.measure.slices import OPEN

LENGTH_S = (0.03, 0.07)
"""Shortest and longest slice. A fixed length could fall into step with a quota of the processors,
whose period is 0.1 s by default."""

NOT_SLICED = (
    "it waits for more than this machine's processors (a step, a server, a disk or an accelerator, "
    "which go on while processes are frozen), or the revision is older than slices"
)


class LiveRound:
    """A round whose worker waits for the beginning of its timed region."""

    def __init__(
        self,
        pid: int,
        marker: str,
        answers: int,
        begin: Callable[[tuple[()]], None],
        *,
        in_slices: bool,
    ) -> None:
        """Set up.

        Args:
            pid: the worker.
            marker: the value of ``SKYMARK_WORKER`` of its processes.
            answers: descriptor that is readable once the worker says more.
            begin: lets the region begin, with no slice yet.
            in_slices: whether the worker can tell waits that a slice's edge cuts.
        """
        self.in_slices = in_slices
        self.answers = answers
        self.slices: list[tuple[int, int]] = []
        """As `skymark.measure.slices.Slices` has them."""
        self._pid, self._marker = pid, marker
        self._begin = begin
        self._freezer: Freezer | None = None

    def hold(self) -> None:
        """Freeze its processes.

        Raises:
            FreezeError: they cannot be frozen; all run.
        """
        freezer = freezer_of(self._pid, self._marker)
        try:
            freezer.freeze()
        except BaseException:
            freezer.close()
            raise
        self._freezer = freezer

    def begin(self) -> None:
        """Let the region begin in slices, once its processes run."""
        self._begin(())

    def run_for(self, seconds: float, spoken: selectors.BaseSelector) -> bool:
        """Let the frozen processes run for a slice; return whether a worker has spoken.

        Raises:
            FreezeError: they cannot be frozen again.
        """
        assert self._freezer is not None
        # The thawed processes may take the processor before this one goes on.
        begin = time.perf_counter_ns()
        self._freezer.thaw()
        left_s = seconds - (time.perf_counter_ns() - begin) / 1e9
        has_spoken = bool(spoken.select(max(0.0, left_s)))
        self.slices.append((begin, time.perf_counter_ns()))
        self._freezer.freeze()
        return has_spoken

    def release(self) -> None:
        """Let its processes run for good; safe to call again."""
        if self._freezer is None:
            return
        self._freezer.close()
        self._freezer = None
        if self.slices:
            self.slices.append((time.perf_counter_ns(), OPEN))

    @property
    def told(self) -> tuple[tuple[int, int], ...] | None:
        """The slices; None for a region in one piece."""
        return tuple(self.slices) or None


def live_s(slices: Sequence[tuple[int, int]]) -> float:
    """Return the seconds of slices until now."""
    now = time.perf_counter_ns()
    return sum(min(end, now) - begin for begin, end in slices) / 1e9


class RoundsInTurn:
    """A round of each of two sides: in slices if that is possible, else one after the other."""

    def __init__(self, measure_second: Callable[[Callable[[LiveRound], None]], None]) -> None:
        """Set up.

        Args:
            measure_second: measures the round of the second side, and calls what it is given once
                its timed region can begin.
        """
        self.reason: str | None = None
        """Reason why the rounds were not measured in slices; None if they were."""
        self._measure_second = measure_second
        self._is_second_due = True
        self._chance = Random()

    def first_is_ready(self, first: LiveRound) -> None:
        """Measure the second side up to its end, and the first in slices meanwhile."""
        if not first.in_slices:
            self.reason = NOT_SLICED
            return
        try:
            first.hold()
        except FreezeError as error:
            self.reason = str(error)
            return
        self._is_second_due = False
        try:
            self._measure_second(lambda second: self._second_is_ready(first, second))
        finally:
            first.release()

    def finish(self) -> None:
        """Measure the second side, if the first has not led to it."""
        if self._is_second_due:
            self._measure_second(lambda _: None)

    def _second_is_ready(self, first: LiveRound, second: LiveRound) -> None:
        if not second.in_slices:
            self.reason = NOT_SLICED
            return
        try:
            second.hold()
            alternate((first, second), self._chance)
        except FreezeError as error:
            self.reason = str(error)
        finally:
            second.release()


def alternate(sides: Sequence[LiveRound], chance: Random) -> None:
    """Run the frozen sides in turn, slice by slice, until a worker has spoken.

    Both sides have slices of one length in succession, in an order that is drawn.

    Raises:
        FreezeError: a side cannot be frozen any more.
    """
    with selectors.DefaultSelector() as spoken:
        for side in sides:
            side.begin()
            spoken.register(side.answers, selectors.EVENT_READ)
        while True:
            seconds = chance.uniform(*LENGTH_S)
            for side in chance.sample(sides, len(sides)):
                if side.run_for(seconds, spoken):
                    return
