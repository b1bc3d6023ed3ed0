"""Calls that may take hours, in a thread, so that time limits and Ctrl-C still work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

POLL_S = 0.1
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock_s() -> float:
    """Return seconds of a clock that nobody sets; it runs while this machine sleeps, on Linux."""
    return time.clock_gettime(_CLOCK)


class BackgroundCall:
    """A call in a thread of its own, which ends with this process at the latest."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.result: Any = None
        self.raised: Exception | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def wait(self, until_s: float | None, enough: Callable[[], bool] = lambda: False) -> bool:
        """Wait for its end; returns False if the time is up first, or it is enough.

        Args:
            until_s: a moment of `clock_s`; None for no limit.
            enough: asked all the time.
        """
        while self._thread.is_alive():
            if enough():
                return False
            if until_s is not None and clock_s() > until_s:
                return False
            self._thread.join(POLL_S)
        return True

    def _run(self) -> None:
        try:
            self.result = self._call()
        except Exception as error:  # the thread's boundary: whatever it is, it goes to the caller
            self.raised = error


def in_background(call: Callable[[], Any], timeout_s: float | None = None) -> Any:
    """Return the result of a call that may take long; Ctrl-C ends the waiting at once.

    Raises:
        TimeoutError: it took longer than allowed.
    """
    made = BackgroundCall(call)
    if not made.wait(None if timeout_s is None else clock_s() + timeout_s):
        raise TimeoutError
    if made.raised is not None:
        raise made.raised
    return made.result
