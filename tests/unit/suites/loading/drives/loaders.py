"""An honest loader and ones that are wrong in one way each, found by their path and class name."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from skymark.suites.loading.adapter import Loader, LoadingJob
from skymark.suites.loading.adapters.numpy import NumpyLoader, NumpyReference
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
