"""Drive a loader for many epochs and measure its process tree's memory between them."""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from skymark.measure.process_tree import pss_bytes_of_tree
from skymark.suites.loading.drives import epochs
from skymark.suites.loading.drives.outcome import Bench, Outcome
from skymark.suites.loading.oracle import CpuTime

if TYPE_CHECKING:
    from skymark.measure.loop import Pass
    from skymark.suites.loading.dataset.canonical import Array

PAUSE_S = 0.2
"""Least time between two measurements of memory, so that they take little of the run's time."""

SHARE = 4
"""Times as long as a weighing took, until the next."""

FEWEST = 6
"""Weighings from which a growth can be told."""


def drive(bench: Bench) -> Outcome:
    """Measure and verify one round, and measure the growth of its memory.

    Every epoch is handed over at its end, so that nothing of it stays in this process but its
    waits, 16 bytes a batch.
    """
    with bench.opened() as (loader, setup_s):
        outcome = bench.outcome(setup_s)
        run = epochs.run_with(bench, loader)
        epochs.warm_up(bench, outcome, run, partial(epochs.verify, bench))
        bench.begin()
        memory = Memory(bench.excluded_pids)
        sent = bench.sent_bytes()
        passes: list[Outline] = []
        for done in measured_passes(bench, run):
            epochs.verify(bench, len(passes) + 1, done)
            passes.append(Outline.of(done, keeps=not passes))
            memory.weigh(sum(len(index) for index in done.indices))
        outcome.resources = bench.region.ends()
        sent = bench.sent_bytes() - sent
    for epoch, outline in enumerate(passes, 1):
        outcome.add(outline.whole, epoch=epoch, measured=True)
    outcome.extra |= memory.figures()
    bench.oracle.check(CpuTime(outcome.resources.cpu_s, outcome.elements))
    bench.check_fetched(sent, outcome.elements)
    return outcome


def measured_passes(bench: Bench, run: epochs.RunEpoch) -> Iterator[Pass]:
    """Yield epochs 1, 2 … until they are long enough, or an epoch was stopped or had no batch."""
    limits = bench.limits
    asked_s = bench.job.scenario.times_as_long * limits.min_seconds
    least_s = min(asked_s, limits.max_seconds)
    seconds, batches, epoch = 0.0, 0, 0
    while epoch == 0 or seconds < least_s or batches < limits.min_batches:
        epoch += 1
        done = run(epoch, epochs.KEPT_PER_EPOCH, limits.max_seconds - seconds)
        seconds += done.wall_ns / 1e9
        batches += len(done.indices)
        yield done
        if not (done.complete and done.indices):
            return


@dataclass(frozen=True)
class Outline:
    """A pass without its content."""

    rest: Pass
    """All but waits and indices."""
    wait_ns: array[int]
    sizes: array[int]
    """Elements of each batch."""

    @classmethod
    def of(cls, done: Pass, *, keeps: bool) -> Outline:
        """Return the outline of a pass, optionally with its kept batches for their size."""
        rest = replace(done, wait_ns=[], indices=[], kept=done.kept if keeps else {})
        return cls(rest, array("q", done.wait_ns), array("q", map(len, done.indices)))

    @property
    def whole(self) -> Pass:
        """The pass, with an index of zeros for each batch."""
        indices = [np.zeros(size, np.int64) for size in self.sizes]
        return replace(self.rest, wait_ns=self.wait_ns.tolist(), indices=indices)


class Memory:
    """The memory of this process tree, by the number of delivered elements."""

    def __init__(self, exclude: Collection[int] = ()) -> None:
        """Begin without measurements.

        Args:
            exclude: processes that are not the library's.
        """
        self._exclude = exclude
        self._delivered = 0
        self._next_s = 0.0
        self._elements: list[int] = []
        self._bytes: list[int] = []

    def weigh(self, elements: int) -> None:
        """Measure the processes' memory after a number of elements, unless just measured."""
        self._delivered += elements
        begin_s = time.monotonic()
        if begin_s < self._next_s:
            return
        size = pss_bytes_of_tree(os.getpid(), self._exclude)
        took_s = time.monotonic() - begin_s
        self._next_s = begin_s + max(PAUSE_S, SHARE * took_s)
        if size is not None:
            self._elements.append(self._delivered)
            self._bytes.append(size)

    def figures(self) -> dict[str, float]:
        """Return the memory and its growth over the later half; empty with too few measurements."""
        if len(self._bytes) < FEWEST:
            return {}
        half = len(self._bytes) // 2
        elements, sizes = (np.array(one[half:]) for one in (self._elements, self._bytes))
        return {
            "settled_memory_bytes": float(np.median(sizes)),
            "memory_growth_bytes_per_1000_samples": 1000 * slope(elements, sizes),
        }


def slope(x: Array, y: Array) -> float:
    """Return the median slope between any two points (Theil, 1950; Sen, 1968), robust to jumps.

    Args:
        x: numbers ``[n]``, each greater than the one before.
        y: numbers ``[n]``.
    """
    first, second = np.triu_indices(len(x), 1)
    return float(np.median((y[second] - y[first]) / (x[second] - x[first])))
