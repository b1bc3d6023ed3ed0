"""Consumers of batches between two waits, and copies of batches to an accelerator."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StepTotals:
    """Training steps of a pass; several passes or processes add up."""

    steps: int = 0
    busy_ns: int = 0
    launch_ns: int = 0
    """Time of handing steps to the device, summed over the steps with a known time."""
    flops: int = 0
    """Floating-point operations of the steps that count them."""
    peak_flops_per_s: float | None = None
    """Peak of one device; None if it is unknown."""

    def plus(self, other: StepTotals) -> StepTotals:
        """Return both together."""
        return StepTotals(
            self.steps + other.steps,
            self.busy_ns + other.busy_ns,
            self.launch_ns + other.launch_ns,
            self.flops + other.flops,
            self.peak_flops_per_s or other.peak_flops_per_s,
        )

    @property
    def flop_share(self) -> float | None:
        """Operations per second of busy time, as a share of the peak."""
        if not (self.flops and self.busy_ns and self.peak_flops_per_s):
            return None
        return self.flops / self.busy_ns * 1e9 / self.peak_flops_per_s

    @property
    def launch_ns_per_step(self) -> float | None:
        """Mean time to hand a step to the device."""
        return self.launch_ns / self.steps if self.launch_ns else None


class Consumer(ABC):
    """The use of batches between the waits."""

    def prepare(self, batch: Any) -> None:
        """Get ready for batches of a new length, outside the timed figures."""

    @abstractmethod
    def consume(self, batch: Any) -> int:
        """Use a batch, wait until that is done, and return the ns an accelerator was busy."""

    def take_work(self) -> StepTotals | None:
        """Return the steps since the last call; None for a consumer without steps."""
        return None


def work_of(consumer: Consumer | None) -> StepTotals | None:
    """Return a consumer's steps since the last call; None for a consumer without steps."""
    return None if consumer is None else consumer.take_work()


class Sleeper(Consumer):
    """A consumer that sleeps as long as an accelerator would compute.

    Args:
        think_ns: time to sleep after each batch.
        clock: monotonic nanoseconds.
        sleep: sleeps for a time in seconds.
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


@dataclass(frozen=True)
class Transfer:
    """Bytes and nanoseconds of copies to a device; several passes or processes add up."""

    moved_bytes: int = 0
    """Bytes of batches that were copied to the device."""
    moving_ns: int = 0
    """Time in which the caller waited for these copies."""
    copied_bytes: int = 0
    """Bytes of a plain buffer as large as a batch."""
    copying_ns: int = 0
    """Time to copy that buffer to the device."""

    def plus(self, other: Transfer) -> Transfer:
        """Return both together."""
        return Transfer(
            self.moved_bytes + other.moved_bytes,
            self.moving_ns + other.moving_ns,
            self.copied_bytes + other.copied_bytes,
            self.copying_ns + other.copying_ns,
        )

    @property
    def moved_bytes_per_s(self) -> float | None:
        """Rate of copied batches; None without a copy."""
        return _per_s(self.moved_bytes, self.moving_ns)

    @property
    def copied_bytes_per_s(self) -> float | None:
        """Rate of the plain copies; None without a copy."""
        return _per_s(self.copied_bytes, self.copying_ns)


def _per_s(size: int, ns: int) -> float | None:
    return size / ns * 1e9 if size and ns else None
