"""The cost of skymark itself: its own time per batch, and a loader that does nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from skymark.measure.consumer import Sleeper
from skymark.measure.loop import timed_pass
from skymark.suites.loading.oracle.arrival import Arrivals

BATCH = {"index": np.arange(32), "values": np.zeros((32, 8)), "label": np.zeros(32)}


def null_loader(batches: int) -> Iterator[dict[str, Any]]:
    """Yield a ready batch a number of times: no loader can be faster."""
    for _ in range(batches):
        yield BATCH


def own_cost_ns(batches: int = 100_000) -> float:
    """Return the time per batch that the timed loop adds to a bare loop over the null loader.

    It is skymark's share of a loader's waits. Neither includes the inspection of some batches and
    the copies of kept batches.

    Args:
        batches: number of batches to average over.

    Returns:
        Nanoseconds per batch; the bare ``for`` loop is measured right before and subtracted.
    """
    begin = time.perf_counter_ns()
    for _ in null_loader(batches):
        pass
    bare_ns = time.perf_counter_ns() - begin
    done = timed_pass(lambda: null_loader(batches), keep=1, receiver=Arrivals())
    return (done.wall_ns - bare_ns) / batches


def null_utilisation(think_ms: float, batches: int = 200) -> float:
    """Return the utilisation that the null loader reaches at a think time per batch, 0 to 1.

    The difference from 1 is skymark's share of every loader's utilisation.
    """
    done = timed_pass(lambda: null_loader(batches), consumer=Sleeper(int(think_ms * 1e6)))
    return done.busy_ns / done.wall_ns
