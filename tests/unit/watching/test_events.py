"""The time in which a GPU's stream is empty, from events, with a stream that stands in for one.

No GPU is here: the stand-in has the interface of `torch.cuda.Event` and a clock of its own.
"""

from __future__ import annotations

import pytest

from skymark.watching.recorder import MOST_OPEN, StreamEvents, cuda_events


class Stream:
    """A host and a device with a clock; work is queued and done in order."""

    def __init__(self) -> None:
        self.now = 0.0
        self.free_at = 0.0
        self.made = 0

    def work(self, ms: float) -> None:
        """Queue work."""
        self.free_at = max(self.free_at, self.now) + ms

    def event(self) -> Event:
        self.made += 1
        return Event(self)


class Event:
    """As `torch.cuda.Event(enable_timing=True)`; it has nothing to synchronise with."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def record(self) -> None:
        self._reached_at = max(self._stream.free_at, self._stream.now)

    def query(self) -> bool:
        return self._stream.now >= self._reached_at

    def elapsed_time(self, other: Event) -> float:
        return other._reached_at - self._reached_at


def trained(steps: int, step_ms: float, wait_ms: float, queued: int = 1) -> tuple[float, Stream]:
    """Empty time of a loop whose device is at first some steps behind the host."""
    stream = Stream()
    events = StreamEvents(stream.event)
    stream.work(step_ms * (queued - 1))
    for _ in range(steps):
        events.asked()
        stream.now += wait_ms
        events.arrived()
        stream.work(step_ms)
    stream.now = stream.free_at + 1
    events.asked()
    events.arrived()
    return events.empty_ms, stream


@pytest.mark.parametrize(("step_ms", "wait_ms"), [(10, 4), (4, 10), (7, 7)])
def test_the_stream_is_empty_for_what_the_wait_is_longer_than_the_work(step_ms, wait_ms):
    empty, _ = trained(50, step_ms, wait_ms)
    assert empty == pytest.approx(wait_ms + 49 * max(wait_ms - step_ms, 0), abs=1e-6)


def test_waits_while_work_is_queued_leave_no_stream_empty():
    empty, _ = trained(20, step_ms=10, wait_ms=12, queued=10)
    assert empty == 0


def test_events_are_used_again():
    _, stream = trained(200, step_ms=1, wait_ms=5)
    assert stream.made < 20


def test_a_device_far_behind_does_not_fill_the_memory():
    stream = Stream()
    events = StreamEvents(stream.event)
    stream.work(1e9)
    for _ in range(3 * MOST_OPEN):
        events.asked()
        events.arrived()
    assert len(events._pairs) <= MOST_OPEN + 1


def test_a_program_without_cuda_has_no_events():
    assert cuda_events(None) is None
    assert cuda_events(pytest) is None
