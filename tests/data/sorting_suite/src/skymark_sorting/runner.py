"""The worker's side: sort one array over and over, count, and verify."""

from __future__ import annotations

import platform
import time
from datetime import UTC, datetime
from pathlib import Path

from skymark.model.effort import Effort
from skymark.model.machine import Platform
from skymark.model.record import Cell, RoundResult
from skymark.suite.contract import TimedRegion
from skymark_sorting import __version__
from skymark_sorting.algorithms import ALGORITHMS, comparisons_of
from skymark_sorting.oracle import verify
from skymark_sorting.shapes import array_of
from skymark_sorting.specification import SortingSpecification, read_settings
from skymark_sorting.suite import MIN_SECONDS

SAMPLE_NS = 1e6
"""Shortest time of a sample: beside it, reading the clock costs nothing."""


class SortingRunner:
    """One algorithm in its own process. Implements `skymark.suite.contract.Runner`."""

    def __init__(self, cell: Cell, cache: Path, platform: Platform) -> None:
        del cache, platform
        self._algorithm = ALGORITHMS[cell.adapter]

    def versions(self) -> dict[str, str]:
        """Return the versions of this package and of Python, whose speed is measured."""
        return {"skymark-sorting": __version__, "python": platform.python_version()}

    def prepare(self, cell: Cell) -> None:
        """Make nothing: an array is quicker made than read."""

    def measure(self, cell: Cell, round: int, effort: Effort, region: TimedRegion) -> RoundResult:
        """Measure and verify one round of a cell."""
        started_at, begin = datetime.now(UTC), time.perf_counter()
        specification = SortingSpecification.of(cell)
        element = read_settings(cell.settings).element
        values = array_of(cell.scenario, specification.length, specification.seed, element)
        arrays = self._arrays_per_sample(values)
        comparisons = comparisons_of(self._algorithm, values)
        setup_s = time.perf_counter() - begin
        samples: list[int] = []
        result = values
        region.begins()
        begin_ns = time.perf_counter_ns()
        while not samples or time.perf_counter_ns() - begin_ns < effort.limits[MIN_SECONDS] * 1e9:
            taken_ns, result = self._sort(values, arrays)
            samples.append(taken_ns)
        timed_ns = time.perf_counter_ns() - begin_ns
        resources = region.ends()
        sorted_elements = specification.length * arrays * len(samples)
        return RoundResult(
            round=round,
            started_at=started_at,
            setup_s=setup_s,
            timed_ns=timed_ns,
            metrics={
                "elements_per_s": sorted_elements / (sum(samples) / 1e9),
                "comparisons": comparisons,
            },
            resources=resources,
            samples={"sorting_ns": tuple(samples), "arrays": (arrays,) * len(samples)},
            verification=verify(values, result),
            conditions={"language": self._algorithm.language},
        )

    def close(self) -> None:
        """Free nothing: an algorithm holds nothing."""

    def _arrays_per_sample(self, values: list[float]) -> int:
        """Return how many arrays to sort between two readings of the clock."""
        taken_ns, _ = self._sort(values, 1)
        return max(1, int(SAMPLE_NS / max(1, taken_ns)))

    def _sort(self, values: list[float], arrays: int) -> tuple[int, list[float]]:
        """Sort copies of an array: the nanoseconds of all, and the last result."""
        copies = [list(values) for _ in range(arrays)]
        result, begin_ns = values, time.perf_counter_ns()
        for copied in copies:
            result = self._algorithm.sort(copied)
        return time.perf_counter_ns() - begin_ns, result
