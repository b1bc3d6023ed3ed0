"""Time of work on a device, which need not wait for it."""

from __future__ import annotations

import time
from typing import Any, Protocol


class Timed(Protocol):
    """A span of work; `ns` waits for its end."""

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, *_: object) -> None:
        """End."""

    @property
    def ns(self) -> int:
        """Its time in nanoseconds."""


def timed(device: Any) -> Timed:
    """Return a span for work on a device."""
    return DeviceSpan(device) if device.type == "cuda" else HostSpan()


class HostSpan:
    """Time by the clock of the host."""

    def __init__(self) -> None:
        self._begin = 0
        self.ns = 0

    def __enter__(self) -> None:
        """Begin."""
        self._begin = time.perf_counter_ns()

    def __exit__(self, *_: object) -> None:
        """End."""
        self.ns = time.perf_counter_ns() - self._begin


class DeviceSpan:
    """Time between two events in a GPU's stream."""

    def __init__(self, device: Any) -> None:
        import torch

        self._device = device
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def __enter__(self) -> None:
        """Begin, when the stream gets there."""
        import torch

        self._begin.record(torch.cuda.current_stream(self._device))

    def __exit__(self, *_: object) -> None:
        """End, when the stream gets there."""
        import torch

        self._end.record(torch.cuda.current_stream(self._device))

    @property
    def ns(self) -> int:
        """Wait for the end, and return the time between the two."""
        self._end.synchronize()
        return int(self._begin.elapsed_time(self._end) * 1e6)
