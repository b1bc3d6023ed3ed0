"""Consumers of batches, which stand between two waits as a training loop does."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any


class Consumer(ABC):
    """The use of batches between the waits."""

    def prepare(self, batch: Any) -> None:
        """Get ready for batches as long as this one: the first and each odd one; in no figure."""

    @abstractmethod
    def consume(self, batch: Any) -> int:
        """Use a batch, wait until that is done, and return the ns an accelerator was busy."""


class Sleeper(Consumer):
    """A consumer that sleeps as long as an accelerator would compute.

    Args:
        think_ns: time to sleep after each batch.
        clock: monotonic nanoseconds.
        sleep: how to let it pass, in seconds.
    """

    def __init__(
        self,
        think_ns: int,
        clock: Callable[[], int] = time.perf_counter_ns,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._think_s = think_ns / 1e9
        self._clock, self._sleep = clock, sleep

    def consume(self, batch: Any) -> int:
        """Sleep, and return how long that took."""
        del batch
        begin = self._clock()
        self._sleep(self._think_s)
        return self._clock() - begin
