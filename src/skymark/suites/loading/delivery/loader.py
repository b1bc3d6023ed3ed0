"""A loader that puts the batches of an inner loader on a framework's device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from itertools import count
from statistics import median
from typing import TYPE_CHECKING, Any

from skymark.measure.consumer import Transfer
from skymark.model.errors import UsageError
from skymark.suites.loading.adapter import Loader
from skymark.suites.loading.delivery.on_jax import Jax
from skymark.suites.loading.delivery.on_tensorflow import TensorFlow
from skymark.suites.loading.delivery.on_torch import Torch
from skymark.suites.loading.devices import fields_for_model

if TYPE_CHECKING:
    from skymark.suites.loading.adapter import Adapter, LoadingJob
    from skymark.suites.loading.delivery.framework import Framework, FrameworkName
    from skymark.suites.loading.work import Batch

PLAIN_COPIES = 21
"""Timed copies of a plain buffer, after an untimed copy; the median counts."""


FRAMEWORKS: Mapping[FrameworkName, type[Framework]] = {
    cls.name: cls for cls in (Jax, TensorFlow, Torch)
}


def opened(adapter: Adapter, job: LoadingJob) -> Loader:
    """Open an adapter's loader, with batches in host memory or on the device, as the job requires.

    Raises:
        UsageError: the job requires a device, and the adapter has no framework; planning refuses
            such a cell, but another version may have made the plan.
    """
    if job.deliver == "host":
        return adapter.open(job)
    if (framework := adapter.framework_on(job.platform)) is None:
        raise UsageError(
            f"{adapter.slug} has no `framework` that reaches a {job.platform}; measure it with "
            "--deliver host"
        )
    loader = adapter.open(job)
    start = partial(FRAMEWORKS[framework], job.platform, job.rank)
    own = adapter.delivering(loader, job)
    return own or DeliveringLoader(loader, start, ahead=job.copies_ahead)


def transfer_of(loader: Loader) -> Transfer | None:
    """Return a loader's transfers since the last call; None if unknown."""
    return loader.take_transfer() if isinstance(loader, DeliveringLoader) else None


@dataclass(frozen=True)
class Delivered:
    """A batch whose fields for a model are on the device."""

    batch: dict[str, Any]
    moved_bytes: int
    """0 if they were made on the device."""


class DeliveringLoader(Loader):
    """A loader that returns a batch when it is on the device.

    With `ahead`, a separate thread takes the next batch from the inner loader as soon as a batch
    is returned, and copies it while the returned batch is in use. It takes one batch only, so two
    batches are on the device. The next batch is taken after the last copy, so that a library may
    write it into the same memory. Without `ahead`, a batch is taken and copied on request.

    The caller's thread takes the first batch of an epoch, because libraries start their processes
    there. Batches of the device are not taken ahead, because they need no copy.

    Args:
        loader: inner loader, which makes the batches.
        start: makes the framework at the first batch, after the fork of worker processes.
        ahead: whether to copy one batch ahead.
    """

    def __init__(
        self, loader: Loader, start: Callable[[], Framework], *, ahead: bool = True
    ) -> None:
        self.loader = loader
        self.worked_on = loader.worked_on
        self._start = start
        self._framework: Framework | None = None
        self._copier = ThreadPoolExecutor(1, "skymark-copies") if ahead else None
        self._next: Future[Delivered | None] | None = None
        self._saved_after: int | None = None
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

    def will_be_saved(self, batches: int) -> None:
        """Take nothing ahead after this number of batches of the next pass."""
        self._saved_after = batches

    def state(self) -> bytes:
        """Return the inner loader's position, after the latest batch delivered.

        Raises:
            RuntimeError: the inner loader is one batch further; see `will_be_saved`.
        """
        if self._next is not None:
            raise RuntimeError("the next batch was taken ahead; call will_be_saved before the pass")
        return self.loader.state()

    def close(self) -> None:
        """End the thread and close the inner loader."""
        if self._copier is not None:
            self._copier.shutdown()
        self.loader.close()

    def take_transfer(self) -> Transfer:
        """Return the transfers since the last call, with plain copies to the same device.

        The plain copies are made once, with the size of a delivered batch. Call it between passes.
        """
        moved = Transfer(self._moved_bytes, self._moving_ns)
        if self._plain is None and self._framework is not None and moved.moved_bytes:
            self._plain = plain_copies(self._framework, self._moved_bytes // self._batches)
        self._batches = self._moved_bytes = self._moving_ns = 0
        return moved.plus(self._plain or Transfer())

    def _delivered(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        saved_after, self._saved_after = self._saved_after, None
        batches = iter(batches)
        following: Future[Delivered | None] | None = None
        try:
            for number in count(1):
                one = self._take(batches) if following is None else following.result()
                following = self._next = None
                if one is None:
                    return
                if one.moved_bytes:
                    self._receive(one.batch)
                    if self._copier is not None and number != saved_after:
                        following = self._next = self._copier.submit(self._take, batches)
                yield one.batch
        finally:
            if following is not None:
                self._leave(following)

    def _leave(self, following: Future[Delivered | None]) -> None:
        """Drop the batch taken ahead after an early end: only one thread at a time may take any."""
        if not following.cancel():
            wait([following])
        if self._next is following:
            self._next = None

    def _take(self, batches: Iterator[Batch]) -> Delivered | None:
        """Take a batch from the inner loader and deliver it; None at the end."""
        batch = next(batches, None)
        if batch is None:
            return None
        self.loader.ready(batch)
        return self._deliver(batch)

    def _deliver(self, batch: Mapping[str, Any]) -> Delivered:
        if self._framework is None:
            self._framework = self._start()
        framework = self._framework
        fields = fields_for_model(batch)
        size = sum(map(framework.bytes_to_move, fields.values()))
        placed = framework.place(fields)
        if size:
            self._moving_ns += placed.copy_ns
            self._moved_bytes += size
            self._batches += 1
        return Delivered({name: placed.fields.get(name, batch[name]) for name in batch}, size)

    def _receive(self, batch: Mapping[str, Any]) -> None:
        if self._framework is not None:
            self._framework.receive(fields_for_model(batch))


def plain_copies(framework: Framework, size: int) -> Transfer:
    """Copy a buffer of `size` bytes to the device several times, and return the median time."""
    buffer = {"buffer": framework.buffer(size)}
    framework.place(buffer)
    taken = [framework.place(buffer).copy_ns for _ in range(PLAIN_COPIES)]
    return Transfer(copied_bytes=size, copying_ns=int(median(taken)))
