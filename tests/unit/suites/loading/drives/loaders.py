"""An honest loader and ones that are wrong in one way each, found by their path and class name."""

from __future__ import annotations

import dataclasses
import mmap
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from skymark.model.platform import Platform
from skymark.suites.loading.adapter import Loader, LoadingJob
from skymark.suites.loading.adapters.numpy import NumpyLoader, NumpyReference
from skymark.suites.loading.delivery.framework import Framework
from skymark.suites.loading.delivery.loader import DeliveringLoader
from skymark.suites.loading.scenario import Batch


class Honest(NumpyReference):
    """The NumPy loop with a loader class that subclasses choose."""

    slug: ClassVar = "honest"
    loader: ClassVar[type[NumpyLoader]] = NumpyLoader

    def open(self, job: LoadingJob) -> Loader:
        return self.loader(job)


class FixedOrder(NumpyLoader):
    """Content by the seed, order by no seed."""

    def order(self, epoch: int) -> list[int]:
        return np.random.default_rng(epoch).permutation(len(self.job.dataset)).tolist()


class IgnoresSeedOfOrder(Honest):
    slug: ClassVar = "ignores-seed-of-order"
    loader: ClassVar = FixedOrder


class RandomOrder(NumpyLoader):
    """Another order each time that it is opened."""

    def __init__(self, job: LoadingJob) -> None:
        super().__init__(job)
        self.salt = int.from_bytes(os.urandom(4))

    def order(self, epoch: int) -> list[int]:
        random = np.random.default_rng([self.salt, epoch])
        return random.permutation(len(self.job.dataset)).tolist()


class IsNotReproducible(Honest):
    slug: ClassVar = "is-not-reproducible"
    loader: ClassVar = RandomOrder


class OrderByWorkers(NumpyLoader):
    def order(self, epoch: int) -> list[int]:
        return np.roll(super().order(epoch), self.job.workers).tolist()


class DependsOnWorkers(Honest):
    slug: ClassVar = "depends-on-workers"
    loader: ClassVar = OrderByWorkers


class DropsWithoutWorkers(Honest):
    """Drops the tail when there are no workers."""

    slug: ClassVar = "drops-without-workers"

    def open(self, job: LoadingJob) -> Loader:
        return NumpyLoader(dataclasses.replace(job, drop_last=not job.workers))


class SkipsOneMore(NumpyLoader):
    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        return self.epoch(epoch, int(state) + 1)


class LosesOnResume(Honest):
    slug: ClassVar = "loses-on-resume"
    loader: ClassVar = SkipsOneMore


class SkipsOneLess(NumpyLoader):
    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        return self.epoch(epoch, int(state) - 1)


class RepeatsOnResume(Honest):
    slug: ClassVar = "repeats-on-resume"
    loader: ClassVar = SkipsOneLess


class ReordersRest(NumpyLoader):
    resumed = 0

    def order(self, epoch: int) -> list[int]:
        head, rest = np.split(np.array(super().order(epoch)), [self.resumed])
        return [*head.tolist(), *(np.sort(rest) if self.resumed else rest).tolist()]

    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        self.resumed = int(state) * self.job.batch_size
        return super().resume(epoch, state)


class ReordersOnResume(Honest):
    slug: ClassVar = "reorders-on-resume"
    loader: ClassVar = ReordersRest


class ForgetsEpoch(NumpyLoader):
    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        order = self.order(epoch)[int(state) * self.job.batch_size :]
        for start in range(0, len(order), self.job.batch_size):
            indices = order[start : start + self.job.batch_size]
            yield self.job.collate([self.job.transform(self.reader[i], 0) for i in indices])


class ForgetsEpochOnResume(Honest):
    slug: ClassVar = "forgets-epoch-on-resume"
    loader: ClassVar = ForgetsEpoch


class IgnoresRank(Honest):
    slug: ClassVar = "ignores-rank"

    def open(self, job: LoadingJob) -> Loader:
        return NumpyLoader(dataclasses.replace(job, rank=0, world=1))


class Nothing(NumpyLoader):
    def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[Batch]:
        return iter(())


class DeliversNothing(Honest):
    slug: ClassVar = "delivers-nothing"
    loader: ClassVar = Nothing


class Dies(NumpyLoader):
    def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[Batch]:
        os._exit(7)


class DiesInEpoch(Honest):
    slug: ClassVar = "dies-in-epoch"
    loader: ClassVar = Dies


class Raises(NumpyLoader):
    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        raise ValueError("the position makes no sense")


class RaisesOnResume(Honest):
    slug: ClassVar = "raises-on-resume"
    loader: ClassVar = Raises


class SaysWhereItIs(NumpyLoader):
    """Writes what its process was given to standard output, as chatty libraries do."""

    def __init__(self, job: LoadingJob) -> None:
        super().__init__(job)
        told = (job.rank, job.world, os.environ["RANK"], os.environ["WORLD_SIZE"])
        # At once: ranks share the pipe, and what print writes piece by piece would mix.
        os.write(1, (" ".join(map(str, told)) + "\n").encode())


class IsChatty(Honest):
    slug: ClassVar = "is-chatty"
    loader: ClassVar = SaysWhereItIs


class PlainMemory(Framework):
    """A device that is memory of the host, and knows the arrays that it made."""

    name: ClassVar = "torch"

    def __init__(self, platform: Platform, number: int) -> None:
        self.place_of = (platform, number)
        self.made: list[np.ndarray] = []
        self.copied: list[int] = []

    def bytes_to_move(self, value: Any) -> int:
        return 0 if any(value is one for one in self.made) else value.nbytes

    def place(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        placed = {name: self.changed(np.array(value)) for name, value in batch.items()}
        self.made += placed.values()
        self.copied.append(sum(value.nbytes for value in placed.values()))
        return placed

    def changed(self, value: np.ndarray) -> np.ndarray:
        return value


class HalvesPrecision(PlainMemory):
    """A device that has no values of single precision."""

    def changed(self, value: np.ndarray) -> np.ndarray:
        return value.astype(np.float16).astype(value.dtype) if value.dtype.kind == "f" else value


class Delivers(Honest):
    """Delivers to `PlainMemory`."""

    slug: ClassVar = "delivers"
    framework: ClassVar = "torch"
    device: ClassVar[type[PlainMemory]] = PlainMemory

    def delivering(self, loader: Loader, job: LoadingJob) -> Loader:
        return DeliveringLoader(loader, lambda: self.device(job.platform, job.rank))


class DeliversHalfPrecision(Delivers):
    slug: ClassVar = "delivers-half-precision"
    device: ClassVar = HalvesPrecision


class KeepingLoader(NumpyLoader):
    """Keeps every batch, 5 ms after the one before.

    In pages of their own: what earlier tests gave back to `malloc` would take up megabytes of it.
    """

    def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[Batch]:
        self.kept: list[mmap.mmap] = getattr(self, "kept", [])
        for batch in super().epoch(epoch, skip_batches):
            content = b"".join(np.ascontiguousarray(field).tobytes() for field in batch.values())
            self.kept.append(mmap.mmap(-1, len(content)))
            self.kept[-1].write(content)
            time.sleep(0.005)
            yield batch


class KeepsEveryBatch(Honest):
    slug: ClassVar = "keeps-every-batch"
    loader: ClassVar = KeepingLoader
