"""The timed loop: the clock starts before a batch is asked for and stops when it can be used."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Clock = Callable[[], int]
"""A monotonic clock in nanoseconds."""


@dataclass
class Pass:
    """The waits of one timed pass over a loader, and the batches to verify.

    `wait_ns[k]` is the time from asking for batch k until it was usable. `indices[k]` is what was
    received of it, its ``index`` array. `kept` holds whole batches by number.
    """

    wait_ns: list[int] = field(default_factory=list)
    indices: list[Any] = field(default_factory=list)
    kept: dict[int, Any] = field(default_factory=dict)
    wall_ns: int = 0
    think_ns: int = 0
    complete: bool = True


def index_of(batch: Any) -> Any:
    """Return a batch's own ``index`` array."""
    return batch["index"]


def timed_pass(
    start: Callable[[], Iterator[Any]],
    ready: Callable[[Any], None] | None = None,
    keep: int = 0,
    *,
    stop_after_ns: int | None = None,
    think_ns: int = 0,
    clock: Clock = time.perf_counter_ns,
    sleep: Callable[[float], None] = time.sleep,
    copy: Callable[[Any], Any] = lambda batch: batch,
    receive: Callable[[Any], Any] = index_of,
    secret: int | None = None,
) -> Pass:
    """Iterate once over a loader and time every wait.

    A batch is asked for as soon as the one before is there, so one look at the clock both ends a
    wait and begins the next, except after a pause: copying a batch to keep it is skymark's own work
    and is taken out of the next wait and of the wall time.

    Args:
        start: begins the pass and returns its iterator; part of the first batch's wait.
        ready: blocks until a batch is usable; inside the clock. None where batches arrive ready.
        keep: how many batches to keep whole for verification, besides those shorter than the first.
            Each is as likely as any other (Vitter, "Random sampling with a reservoir", 1985,
            algorithm R), and whether it is kept depends on `secret` and on when it arrived: nobody
            can know before.
        stop_after_ns: end the pass after the batch that crosses this wall time.
        think_ns: time to sleep after each batch, as a busy accelerator would make the caller do.
        clock: monotonic nanoseconds.
        sleep: how to let `think_ns` pass.
        copy: makes a kept batch independent of the loader's buffers.
        receive: makes sure that a batch is usable and returns its index; inside the clock.
        secret: decides which batches are kept; None for the system's entropy.

    Returns:
        The waits and what is needed to verify them. `complete` is False if stopped early.
    """
    result = Pass()
    arrived: list[int] = []
    asked_again: dict[int, int] = {}
    record_arrival, record_index = arrived.append, result.indices.append
    if secret is None:
        secret = int.from_bytes(os.urandom(8))
    reservoir: list[int] = []
    full = copying_ns = 0
    begin = clock()
    deadline = float("inf") if stop_after_ns is None else begin + stop_after_ns
    for number, batch in enumerate(start()):
        if ready is not None:
            ready(batch)
        index = receive(batch)
        now = clock()
        record_arrival(now)
        record_index(index)
        place = hash((secret, now)) % (number + 1) if number >= keep else number
        if place < keep or len(index) < full:
            copying = clock()
            result.kept[number] = copy(batch)
            if number < keep:
                reservoir.append(number)
                full = full or len(index)
            elif place < keep:
                result.kept.pop(reservoir[place])
                reservoir[place] = number
            asked_again[number] = clock()
            copying_ns += asked_again[number] - copying
        if now > deadline:
            result.complete = False
            break
        if think_ns:
            thinking = clock()
            sleep(think_ns / 1e9)
            asked_again[number] = clock()
            result.think_ns += asked_again[number] - thinking
    result.wall_ns = clock() - begin - copying_ns
    begins = [begin, *(asked_again.get(number, then) for number, then in enumerate(arrived))]
    result.wait_ns = [end - start for start, end in zip(begins, arrived, strict=False)]
    return result
