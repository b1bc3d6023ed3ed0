"""Timed loop: the clock runs from the request for a batch until the batch is usable."""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from operator import sub
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skymark.measure.consumer import Consumer, StepTotals, Transfer

Clock = Callable[[], int]
"""A monotonic clock in nanoseconds."""

GoOn = Callable[[int, int, int], int]
"""Returns the ns by which a pass continues, 0 to end it. It gets the number of batches, and the ns
until the first and the last batch arrived, without the consumer's preparation."""

FOREVER_NS = 1 << 62
"""A time limit that no pass reaches: 146 years."""

LEAST_KEY = -(1 << 63)
"""The least hash that Python gives on 64 bits."""

KEYS = 1 << 64
"""Number of different hashes, from `LEAST_KEY` on."""

EXAMINED = 16
"""One batch in this many is examined, in addition to kept batches."""


@dataclass
class Pass:
    """The waits of one timed pass over a loader, and the batches to verify.

    `wait_ns[k]` is the time from asking for batch k until it was usable. `indices[k]` is its
    index as it was on arrival, int64 ``[B]``. `kept` holds whole batches by number.
    `asked_ns` holds the moments of asking, also for the batch that did not come.
    """

    wait_ns: list[int] = field(default_factory=list)
    indices: list[NDArray[np.int64]] = field(default_factory=list)
    kept: dict[int, Any] = field(default_factory=dict)
    wall_ns: int = 0
    think_ns: int = 0
    """Time between the waits, in which the batches were consumed."""
    busy_ns: int = 0
    """Part of `think_ns` in which an accelerator computed, or the consumer slept in its place."""
    complete: bool = True
    asked_ns: list[int] = field(default_factory=list)
    is_cut: list[bool] = field(default_factory=list)
    """Whether the edge of a slice cut each wait; empty for a pass that was not sliced."""
    transfer: Transfer | None = None
    """Copies to an accelerator in the waits; `timed_pass` leaves it None."""
    work: StepTotals | None = None
    """Training steps between the waits; `timed_pass` leaves it None."""


def end(arrived: int, first_ns: int, last_ns: int) -> int:
    """End a pass when its time is over; a `GoOn`."""
    del arrived, first_ns, last_ns
    return 0


class Receiver:
    """Receiver of batches on arrival; the base class trusts them."""

    def receive(self, batch: Any) -> Any:
        """Make sure that a batch is usable, and return it as it is to be used."""
        return batch

    def index_of(self, batch: Any) -> bytes:
        """Copy the index of a received batch, int64, outside the timed figures."""
        return np.array(batch["index"], np.int64).tobytes()

    def examine(self, batch: Any) -> None:
        """Check a batch more closely, outside the timed figures."""


def timed_pass(
    start: Callable[[], Iterator[Any]],
    ready: Callable[[Any], None] | None = None,
    keep: int = 0,
    *,
    stop_after_ns: int | None = None,
    go_on: GoOn = end,
    consumer: Consumer | None = None,
    clock: Clock = time.perf_counter_ns,
    copy: Callable[[Any], Any] = lambda batch: batch,
    receiver: Receiver | None = None,
    secret: int | None = None,
) -> Pass:
    """Iterate once over a loader and time every wait.

    Skymark copies indices, and examines and keeps batches, between two waits. This work counts
    neither as a wait nor as wall time.

    A hash of `secret` and the arrival time in ns selects the batches to keep or examine, so no
    loader can know them in advance. The least hashes win, so each batch is equally likely (bottom-k
    sampling; Cohen and Kaplan, "Summarizing data using bottom-k sketches", 2007). Batches shorter
    than the first are kept, too.

    Args:
        start: begins the pass and returns its iterator; part of the first batch's wait.
        ready: blocks until a batch is usable; inside the clock. None if batches arrive ready.
        keep: number of whole batches to keep for verification, besides short batches.
        stop_after_ns: end the pass after the batch that crosses this wall time.
        go_on: called each time the pass would end; may extend it.
        consumer: consumes each batch between its wait and the next; None for no work.
        clock: monotonic nanoseconds.
        copy: makes a kept batch independent of the loader's buffers.
        receiver: receives every batch inside the clock. Outside the clock it copies every index and
            examines the kept batches and one in `EXAMINED` of the rest.
        secret: seed of the selection of kept batches; None for the system's entropy.

    Returns:
        The waits and what is needed to verify them. `complete` is False if stopped early.
    """
    result = Pass()
    receiver = receiver or Receiver()
    receive, index_of, examine = receiver.receive, receiver.index_of, receiver.examine
    consume = None if consumer is None else consumer.consume
    sample = Sample(keep, copy)
    arrived: list[int] = []
    asked = result.asked_ns
    indices = IndexBytes()
    copied, record_arrival, record_asking = indices.joined, arrived.append, asked.append
    if secret is None:
        secret = int.from_bytes(os.urandom(8))
    full, below = 0, sample.below
    begin = clock()
    record_asking(begin)
    deadline = begin + (FOREVER_NS if stop_after_ns is None else stop_after_ns)
    for batch in start():
        if ready is not None:
            ready(batch)
        batch = receive(batch)  # noqa: PLW2901 - a reference to the old one would keep it alive
        now = clock()
        record_arrival(now)
        index = index_of(batch)
        copied += index
        if (key := hash((now, secret))) < below or len(index) != full:
            number = len(arrived) - 1
            if len(index) != full:
                full = full or len(index)
                indices.note_size(number, len(index))
                if consumer is not None:
                    preparing = clock()
                    consumer.prepare(batch)
                    spent = clock() - preparing
                    begin, deadline = begin + spent, deadline + spent
            examine(batch)
            below = sample.offer(number, key, batch, always=keep > 0 and len(index) < full)
        if now > deadline:
            deadline = now + go_on(len(arrived), arrived[0] - asked[0], now - begin)
            if deadline <= now:
                result.complete = False
                break
        if consume is not None:
            consuming = clock()
            result.busy_ns += consume(batch)
            result.think_ns += clock() - consuming
        record_asking(clock())
    end_ns = clock() - asked[-1] if result.complete else 0
    result.wait_ns = list(map(sub, arrived, asked))
    result.wall_ns = sum(result.wait_ns) + result.think_ns + end_ns
    result.indices = indices.split(len(arrived))
    result.kept = sample.kept
    return result


class Sample:
    """Kept batches: the batches with the least keys, and batches kept regardless of their key.

    Attributes:
        kept: copies of the batches, by number.
    """

    def __init__(self, keep: int, copy: Callable[[Any], Any]) -> None:
        self.kept: dict[int, Any] = {}
        self._keep, self._copy = keep, copy
        self._least: list[tuple[int, int]] = []
        self._keep_below: float = float("inf") if keep else LEAST_KEY

    @property
    def below(self) -> float:
        """Key below which a batch has to be offered."""
        return max(self._keep_below, LEAST_KEY + KEYS // EXAMINED)

    def offer(self, number: int, key: int, batch: Any, *, always: bool) -> float:
        """Keep a copy of a batch if `always` is true or its key is low enough.

        Returns:
            The new value of `below`.
        """
        if always:
            self.kept[number] = self._copy(batch)
        elif key < self._keep_below:
            self.kept[number] = self._copy(batch)
            heapq.heappush(self._least, (-key, number))
            if len(self._least) > self._keep:
                del self.kept[heapq.heappop(self._least)[1]]
            if len(self._least) == self._keep:
                self._keep_below = -self._least[0][0]
        return self.below


class IndexBytes:
    """The indices of a pass's batches, as they were on arrival, in one piece of memory.

    A separate copy per batch would cost several times as much.

    Attributes:
        joined: the bytes of all indices, int64.
    """

    def __init__(self) -> None:
        self.joined = bytearray()
        self._sizes: dict[int, int] = {}

    def note_size(self, number: int, size: int) -> None:
        """Record the bytes of a batch; batches without a record are as large as the first."""
        self._sizes[number] = size

    def split(self, batches: int) -> list[NDArray[np.int64]]:
        """Return the index of each batch, int64 ``[B]``."""
        sizes = np.full(batches, self._sizes.get(0, 0))
        sizes[list(self._sizes)] = list(self._sizes.values())
        ends = (sizes.cumsum() // np.dtype(np.int64).itemsize).tolist()
        joined = np.frombuffer(self.joined, np.int64)
        return [joined[begin:end] for begin, end in pairwise([0, *ends])]
