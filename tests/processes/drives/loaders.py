"""An honest loader and ones that are wrong in one way each, found by their path and class name."""

from __future__ import annotations

import dataclasses
import mmap
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from skymark.model.machine import Platform
from skymark.suites.loading.adapter import Loader, LoadingJob
from skymark.suites.loading.adapters.numpy import NumpyLoader, NumpyReference
from skymark.suites.loading.delivery.framework import Framework, Placed
from skymark.suites.loading.delivery.loader import DeliveringLoader
from skymark.suites.loading.work import Batch


class Honest(NumpyReference):
    """The NumPy loop with a loader class that subclasses choose."""

    slug: ClassVar = "honest"
    loader: ClassVar[type[NumpyLoader]] = NumpyLoader


class FixedOrder(NumpyLoader):
    """Content by the seed, order by no seed."""

    def order(self, epoch: int) -> list[int]:
        return np.random.default_rng(epoch).permutation(len(self.job.dataset)).tolist()


class TenMilliseconds(NumpyLoader):
    """Waits as if each batch came from afar."""

    def epoch(self, epoch: int) -> Iterator[Batch]:
        for batch in super().epoch(epoch):
            time.sleep(0.01)
            yield batch


class Slow(Honest):
    slug: ClassVar = "slow"
    loader: ClassVar = TenMilliseconds


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


class CountsFromTheResume(NumpyLoader):
    """It resumes once: its next position counts from there."""

    resumed = 0

    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        self.resumed = int(state)
        return super().resume(epoch, state)

    def state(self) -> bytes:
        return str(int(super().state()) - self.resumed).encode()


class ResumesOnce(Honest):
    slug: ClassVar = "resumes-once"
    loader: ClassVar = CountsFromTheResume


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

    def place(self, batch: Mapping[str, Any]) -> Placed:
        begin_ns = time.perf_counter_ns()
        placed = {name: self.changed(np.array(value)) for name, value in batch.items()}
        self.made += placed.values()
        self.copied.append(sum(value.nbytes for value in placed.values()))
        return Placed(placed, time.perf_counter_ns() - begin_ns)

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
    framework_platforms: ClassVar = frozenset({"cpu", "gpu"})
    device: ClassVar[type[PlainMemory]] = PlainMemory

    def delivering(self, loader: Loader, job: LoadingJob) -> Loader:
        def start() -> PlainMemory:
            return self.device(job.platform, job.rank)

        return DeliveringLoader(loader, start, ahead=job.copies_ahead)


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


class RunsInRandomOrder(NumpyLoader):
    """Runs of a batch's elements, one after another."""

    within: ClassVar[bool] = False

    def order(self, epoch: int) -> list[int]:
        random = np.random.default_rng([self.job.seed, epoch])
        size = self.job.batch_size
        runs = [np.arange(len(self.job.dataset))[at : at + size] for at in self.starts(random)]
        return [int(index) for run in runs for index in self.of_run(run, random)]

    def starts(self, random: np.random.Generator) -> list[int]:
        """Return the first elements of runs; the short one stays last."""
        whole = len(self.job.dataset) // self.job.batch_size
        return (np.append(random.permutation(whole), whole) * self.job.batch_size).tolist()

    def of_run(self, run: np.ndarray, random: np.random.Generator) -> np.ndarray:
        return random.permutation(run) if self.within else run


class ShufflesRuns(Honest):
    slug: ClassVar = "shuffles-runs"
    loader: ClassVar = RunsInRandomOrder


class RunsShuffledWithin(RunsInRandomOrder):
    within: ClassVar = True


class ShufflesWithinRuns(Honest):
    slug: ClassVar = "shuffles-within-runs"
    loader: ClassVar = RunsShuffledWithin


class SeekingLoader(NumpyLoader):
    """Starts an epoch at any batch; tests may have a list of its elements."""

    def seek(self, epoch: int, batches: int) -> Iterator[Batch]:
        return self.epoch(epoch, batches)


class Seeks(Honest):
    slug: ClassVar = "seeks"
    loader: ClassVar = SeekingLoader


class StartsOver(SeekingLoader):
    def seek(self, epoch: int, batches: int) -> Iterator[Batch]:
        return self.epoch(epoch)


class SeeksNowhere(Honest):
    slug: ClassVar = "seeks-nowhere"
    loader: ClassVar = StartsOver


class ShufflesFromThere(SeekingLoader):
    """Draws what is left anew from where it starts."""

    def seek(self, epoch: int, batches: int) -> Iterator[Batch]:
        self.place = batches * self.job.batch_size
        yield from self.epoch(epoch, batches)

    def order(self, epoch: int) -> list[int]:
        head, rest = np.split(np.array(super().order(epoch)), [self.place])
        random = np.random.default_rng(self.place)
        return [*head.tolist(), *(random.permutation(rest) if self.place else rest).tolist()]


class ShufflesAnewFromThere(Honest):
    slug: ClassVar = "shuffles-anew-from-there"
    loader: ClassVar = ShufflesFromThere


class NearbyOrder(SeekingLoader):
    """Shuffles quarters of the data set, one after another."""

    def order(self, epoch: int) -> list[int]:
        random = np.random.default_rng([self.job.seed, epoch])
        quarters = np.array_split(np.arange(len(self.job.dataset)), 4)
        return np.concatenate([random.permutation(one) for one in quarters]).tolist()


class ShufflesNearby(Honest):
    slug: ClassVar = "shuffles-nearby"
    loader: ClassVar = NearbyOrder


class SeekingFixedOrder(FixedOrder, SeekingLoader):
    """Order by the epoch alone."""


class SeeksByNoSeed(Honest):
    slug: ClassVar = "seeks-by-no-seed"
    loader: ClassVar = SeekingFixedOrder


class SeekingOneOrder(SeekingLoader):
    def order(self, epoch: int) -> list[int]:
        return super().order(0)


class SeeksInOneOrder(Honest):
    slug: ClassVar = "seeks-in-one-order"
    loader: ClassVar = SeekingOneOrder


class DrawsWithReplacement(SeekingLoader):
    def order(self, epoch: int) -> list[int]:
        total = len(self.job.dataset)
        return np.random.default_rng([self.job.seed, epoch]).integers(0, total, total).tolist()


class SeeksWithReplacement(Honest):
    slug: ClassVar = "seeks-with-replacement"
    loader: ClassVar = DrawsWithReplacement


class SwapsFeatures(SeekingLoader):
    def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[Batch]:
        for batch in super().epoch(epoch, skip_batches):
            yield {**batch, "features": batch["features"][::-1]}


class SeeksOthersFeatures(Honest):
    slug: ClassVar = "seeks-others-features"
    loader: ClassVar = SwapsFeatures


class SeeksNothing(Honest):
    slug: ClassVar = "seeks-nothing"

    class loader(SeekingLoader):  # noqa: N801 - the class attribute of `Honest`
        def seek(self, epoch: int, batches: int) -> Iterator[Batch]:
            return iter(())


class SourcesOneByOne(NumpyLoader):
    """The right elements of each source, but all of a source before the next one."""

    def order(self, epoch: int) -> list[int]:
        bounds = self.job.scenario.mixture.bounds
        order = np.array(super().order(epoch))
        return [int(i) for begin, end in bounds for i in order[(begin <= order) & (order < end)]]


class TakesOneSourceFirst(Honest):
    slug: ClassVar = "takes-one-source-first"
    loader: ClassVar = SourcesOneByOne


class AllElementsOnce(NumpyLoader):
    """A concatenation of the sources, shuffled."""

    def order(self, epoch: int) -> list[int]:
        random = np.random.default_rng(self.job.shuffle_seed(epoch))
        return random.permutation(len(self.job.dataset)).tolist()


class IgnoresWeights(Honest):
    slug: ClassVar = "ignores-weights"
    loader: ClassVar = AllElementsOnce


class WithReplacement(NumpyLoader):
    """Elements drawn by weight with replacement, as `WeightedRandomSampler` draws them."""

    def order(self, epoch: int) -> list[int]:
        mixture = self.job.scenario.mixture
        random = np.random.default_rng(self.job.shuffle_seed(epoch))
        shares = np.array(mixture.weights) / np.array(mixture.sizes)
        weights = np.repeat(shares, mixture.sizes)
        return random.choice(len(weights), mixture.elements, p=weights).tolist()


class MixesWithReplacement(Honest):
    slug: ClassVar = "mixes-with-replacement"
    loader: ClassVar = WithReplacement


class FixedMixture(NumpyLoader):
    def order(self, epoch: int) -> list[int]:
        return self.job.scenario.mixture.draw(np.random.default_rng(epoch)).tolist()


class MixesByNoSeed(Honest):
    slug: ClassVar = "mixes-by-no-seed"
    loader: ClassVar = FixedMixture


class OneMixture(NumpyLoader):
    def order(self, epoch: int) -> list[int]:
        return super().order(0)


class MixesAlikeInEachEpoch(Honest):
    slug: ClassVar = "mixes-alike-in-each-epoch"
    loader: ClassVar = OneMixture


class RandomMixture(NumpyLoader):
    def order(self, epoch: int) -> list[int]:
        return self.job.scenario.mixture.draw(np.random.default_rng()).tolist()


class MixesAtRandom(Honest):
    slug: ClassVar = "mixes-at-random"
    loader: ClassVar = RandomMixture


class ShortMixture(NumpyLoader):
    def order(self, epoch: int) -> list[int]:
        return super().order(epoch)[: -self.job.batch_size]


class MixesTooFew(Honest):
    slug: ClassVar = "mixes-too-few"
    loader: ClassVar = ShortMixture


class OthersContent(NumpyLoader):
    """The content of another element of the batch."""

    def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[Batch]:
        for batch in super().epoch(epoch, skip_batches):
            yield {**batch, "features": np.roll(batch["features"], 1, axis=0)}


class MixesOthersContent(Honest):
    slug: ClassVar = "mixes-others-content"
    loader: ClassVar = OthersContent
