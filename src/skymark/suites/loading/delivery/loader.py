"""A loader whose batches another loader makes, and a framework puts on its device."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from skymark.measure.transfer import Transfer
from skymark.model.errors import UsageError
from skymark.suites.loading.adapter import Loader
from skymark.suites.loading.delivery.frameworks import framework_named
from skymark.suites.loading.devices import is_for_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from skymark.suites.loading.adapter import Adapter, LoadingJob
    from skymark.suites.loading.delivery.framework import Framework
    from skymark.suites.loading.scenario import Batch

PLAIN_COPIES = 21
"""Copies of a plain buffer, after one more that is not timed; the median counts."""


def opened(adapter: Adapter, job: LoadingJob) -> Loader:
    """Open an adapter's loader, whose batches end where the job asks for them.

    Raises:
        UsageError: that is a device, and the adapter names no framework; planning refuses such a
            cell, but a plan may be another version's.
    """
    if job.deliver == "host":
        return adapter.open(job)
    if adapter.framework is None:
        raise UsageError(
            f"{adapter.slug} names no `framework` that reaches a device; measure it with --deliver "
            "host"
        )
    loader = adapter.open(job)
    start = partial(framework_named, adapter.framework, job.platform, job.rank)
    return adapter.delivering(loader, job) or DeliveringLoader(loader, start)


def transfer_of(loader: Loader) -> Transfer | None:
    """Return what a loader moved since it was last asked; None where nothing tells."""
    return loader.take_transfer() if isinstance(loader, DeliveringLoader) else None


class DeliveringLoader(Loader):
    """A loader that hands out a batch when it is on the device.

    Copies are timed here, inside the wait; nothing is copied ahead. `start` makes the framework
    when the first batch is there: worker processes are forked before that.
    """

    def __init__(self, loader: Loader, start: Callable[[], Framework]) -> None:
        self.loader = loader
        self.worked_on = loader.worked_on
        self._start = start
        self._framework: Framework | None = None
        self._batches = self._moved_bytes = self._moving_ns = 0
        self._plain: Transfer | None = None

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Deliver the batches of an epoch."""
        return self._delivered(self.loader.epoch(epoch))

    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        """Deliver the rest of an epoch."""
        return self._delivered(self.loader.resume(epoch, state))

    def seek(self, epoch: int, batches: int) -> Iterator[Batch]:
        """Deliver an epoch from a batch on."""
        return self._delivered(self.loader.seek(epoch, batches))

    def state(self) -> bytes:
        """Return the other loader's position."""
        return self.loader.state()

    def close(self) -> None:
        """Close the other loader."""
        self.loader.close()

    def take_transfer(self) -> Transfer:
        """Return what was moved since the last call, beside plain copies to the same device.

        The plain copies are made once, when there was a batch to tell their size.
        """
        moved = Transfer(self._moved_bytes, self._moving_ns)
        if self._plain is None and self._framework is not None and moved.moved_bytes:
            self._plain = plain_copies(self._framework, self._moved_bytes // self._batches)
        self._batches = self._moved_bytes = self._moving_ns = 0
        return moved.plus(self._plain or Transfer())

    def _delivered(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        wait = self.loader.ready
        for batch in batches:
            wait(batch)
            yield self._deliver(batch)

    def _deliver(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        if self._framework is None:
            self._framework = self._start()
        framework = self._framework
        fields = {name: value for name, value in batch.items() if is_for_model(name, value)}
        size = sum(map(framework.bytes_to_move, fields.values()))
        begin = time.perf_counter_ns()
        placed = framework.place(fields)
        if size:
            self._moving_ns += time.perf_counter_ns() - begin
            self._moved_bytes += size
            self._batches += 1
        return {name: placed.get(name, batch[name]) for name in batch}


def plain_copies(framework: Framework, size: int) -> Transfer:
    """Copy a buffer of so many bytes to the device several times; the median is the time of one."""
    buffer = {"buffer": framework.buffer(size)}
    framework.place(buffer)
    moments = [time.perf_counter_ns()]
    for _ in range(PLAIN_COPIES):
        framework.place(buffer)
        moments.append(time.perf_counter_ns())
    taken = [end - begin for begin, end in pairwise(moments)]
    return Transfer(copied_bytes=size, copying_ns=int(median(taken)))
