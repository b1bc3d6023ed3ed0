"""Time in which a CUDA stream stands empty, from events that nobody waits for.

The loop records one event when it asks for a batch. The stream reaches it after all earlier work.
The loop records another event when the batch arrives. An empty stream reaches it at once. The time
between both events is the time without work.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Callable

MOST_OPEN = 512
"""Pairs that the device may be behind; older ones are given up."""


class StreamEvents:
    """Pairs of events on the current stream; read when the device has passed them."""

    def __init__(self, make_event: Callable[[], Any]) -> None:
        """Prepare.

        Args:
            make_event: makes an event with `record()`, `query()` and `elapsed_time(other)` in ms.
        """
        self._make = make_event
        self._asked: Any | None = None
        self._pairs: deque[tuple[Any, Any]] = deque()
        self._free: list[Any] = []
        self.empty_ms = 0.0
        self.pairs = 0

    def asked(self) -> None:
        """Record that a batch is asked for."""
        self._asked = self._free.pop() if self._free else self._make()
        self._asked.record()

    def arrived(self) -> None:
        """Record that it came, and read the pairs that the device has passed."""
        if self._asked is None:
            return
        arrived = self._free.pop() if self._free else self._make()
        arrived.record()
        self._pairs.append((self._asked, arrived))
        self._asked = None
        while self._pairs and self._pairs[0][1].query():
            first, second = self._pairs.popleft()
            self.empty_ms += first.elapsed_time(second)
            self.pairs += 1
            self._free += (first, second)
        if len(self._pairs) > MOST_OPEN:
            self._pairs.popleft()

    def to_json(self) -> dict[str, float]:
        """Return the time without work and the batches that it counts."""
        return {"empty_ms": self.empty_ms, "pairs": self.pairs}


def cuda_events(torch: Any) -> StreamEvents | None:
    """Return events of the current CUDA stream, if the program uses a GPU by now."""
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return None
    return StreamEvents(lambda: cuda.Event(enable_timing=True))
