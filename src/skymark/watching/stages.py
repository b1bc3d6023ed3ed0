"""Time by stage in one process: exclusive wall and CPU time, and the spread of calls."""

from __future__ import annotations

import heapq
from functools import wraps
from threading import local
from time import perf_counter_ns, thread_time_ns
from typing import Any, Callable

STAGES = ("read", "decode", "transform", "collate", "hand-over", "copy")
"""The stages of a loader, in the order in which a sample passes them."""
FETCH = "fetch"
"""A whole batch in a worker: its own time is the time of no other stage."""
SAMPLE = "sample"
"""One element of the data set, likewise."""
SLOWEST = 10
"""Slow samples that are remembered."""
STEPS_PER_OCTAVE = 8


def bucket_of(duration_ns: int) -> int:
    """Return the bucket of a duration: eight for each doubling, so within 13 %."""
    if duration_ns < STEPS_PER_OCTAVE:
        return max(duration_ns, 0)
    octave = duration_ns.bit_length() - 4
    return STEPS_PER_OCTAVE * (octave + 1) + ((duration_ns >> octave) - STEPS_PER_OCTAVE)


def duration_of(bucket: int) -> int:
    """Return the middle of a bucket in ns."""
    if bucket < STEPS_PER_OCTAVE:
        return bucket
    octave, step = divmod(bucket, STEPS_PER_OCTAVE)
    return int((step + STEPS_PER_OCTAVE + 0.5) * 2 ** (octave - 1))


class StageTime:
    """Time of one stage in this process."""

    __slots__ = ("calls", "cpu_ns", "histogram", "wall_ns", "whole_ns")

    def __init__(self) -> None:
        self.calls = 0
        self.wall_ns = 0  # without the stages inside it, like the CPU time
        self.cpu_ns = 0
        self.whole_ns = 0
        self.histogram: dict[int, int] = {}  # calls by the bucket of their whole duration

    def to_json(self) -> dict[str, Any]:
        """Return the sums and the histogram."""
        return {
            "calls": self.calls,
            "wall_ns": self.wall_ns,
            "cpu_ns": self.cpu_ns,
            "whole_ns": self.whole_ns,
            "histogram": list(self.histogram.copy().items()),
        }


class StageClock:
    """Clock of the stages of a process; each thread has its own stack of running stages.

    Two threads that end a stage at once may lose one call of it: a lock would cost more.
    """

    def __init__(self) -> None:
        self.stages: dict[str, StageTime] = {}
        self.slowest: list[tuple[int, str]] = []
        self._threads = local()

    def enter(self) -> list[int]:
        """Start a stage in this thread, and return its entry in the stack."""
        stack = self._threads.__dict__.get("stack")
        if stack is None:
            stack = self._threads.stack = []
        entry = [0, 0, thread_time_ns(), perf_counter_ns()]
        stack.append(entry)
        return entry

    def leave(self, name: str, entry: list[int], calls: int = 1) -> int:
        """End a stage and return its whole wall time in ns.

        Args:
            name: of the stage.
            entry: as `enter` gave it.
            calls: samples that it delivered; their time counts as equal.
        """
        wall = perf_counter_ns() - entry[3]
        cpu = thread_time_ns() - entry[2]
        stack = self._threads.stack
        while stack and stack.pop() is not entry:
            pass  # a stage that an exception left
        if stack:
            stack[-1][0] += wall
            stack[-1][1] += cpu
        stage = self.stages.get(name)
        if stage is None:
            stage = self.stages[name] = StageTime()
        stage.calls += calls
        stage.whole_ns += wall
        stage.wall_ns += wall - entry[0]
        stage.cpu_ns += cpu - entry[1]
        bucket = bucket_of(wall // calls if calls > 1 else wall)
        stage.histogram[bucket] = stage.histogram.get(bucket, 0) + calls
        return wall

    def remember(self, wall_ns: int, name: object) -> None:
        """Remember a sample if it is among the slowest."""
        if len(self.slowest) < SLOWEST:
            heapq.heappush(self.slowest, (wall_ns, str(name)[:80]))
        elif wall_ns > self.slowest[0][0]:
            heapq.heapreplace(self.slowest, (wall_ns, str(name)[:80]))

    def timed(
        self, name: str, call: Callable[..., Any], woken: Callable[[], None] | None = None
    ) -> Callable[..., Any]:
        """Return a function that does the same and counts as a stage.

        Args:
            name: of the stage.
            call: the function.
            woken: called before the first call in a process.
        """

        @wraps(call)
        def stage(*values: Any, **named: Any) -> Any:
            if woken is not None:
                woken()
            entry = self.enter()
            try:
                return call(*values, **named)
            finally:
                self.leave(name, entry)

        return stage

    def clear(self) -> None:
        """Forget everything, as in a process that was forked."""
        self.stages.clear()
        self.slowest.clear()
        self._threads = local()

    def to_json(self) -> dict[str, Any]:
        """Return all stages and the slowest samples."""
        return {
            "stages": {name: stage.to_json() for name, stage in list(self.stages.items())},
            "slowest": sorted(self.slowest, reverse=True),
        }
