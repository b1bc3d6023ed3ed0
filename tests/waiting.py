"""Waiting for what other processes and threads do."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(found: Callable[[], object], seconds: float = 120, what: str = "it") -> None:
    """Wait until something is found."""
    deadline = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < deadline, f"{what} did not come within {seconds:g} s"
        time.sleep(0.005)
