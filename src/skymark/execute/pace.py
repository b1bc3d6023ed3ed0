"""Wall time of rounds and of the starts of processes, as a run goes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean


class Pace:
    """Times the rounds of cells, and what processes take besides."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin with nothing known.

        Args:
            clock: seconds, monotonic.
        """
        self._clock = clock
        self._rounds_s: dict[str, list[float]] = defaultdict(list)
        self._starts_s: dict[str, list[float]] = defaultdict(list)
        self._inside_s = 0.0

    @contextmanager
    def round(self, cell: str) -> Iterator[None]:
        """Time a round of a cell, by its id."""
        began = self._clock()
        try:
            yield
        finally:
            took_s = self._clock() - began
            self._rounds_s[cell].append(took_s)
            self._inside_s += took_s

    @contextmanager
    def process(self, group: str) -> Iterator[None]:
        """Time a process by its group: its start and its end, without the rounds in it."""
        began, self._inside_s = self._clock(), 0.0
        try:
            yield
        finally:
            self._starts_s[group].append(self._clock() - began - self._inside_s)

    def round_s(self, cell: str) -> float | None:
        """Return the time of a cell's round, on average; None if it had none."""
        seen = self._rounds_s.get(cell)
        return fmean(seen) if seen else None

    def starts_s(self) -> dict[str, float]:
        """Return the time that processes took besides their rounds, on average, by group."""
        return {group: fmean(seen) for group, seen in self._starts_s.items()}
