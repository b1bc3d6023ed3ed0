"""Adapters that cheat, each in one way, and must end `invalid`; and honest ones that must not.

The honest are unusual: they say so in their first word.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from mmap import mmap

import numpy as np

from skymark.measure.loop import timed_pass
from skymark.suites.loading import bench
from skymark.suites.loading.adapter import Loader, LoadingJob
from skymark.suites.loading.adapters.numpy import NumpyLoader, NumpyReference
from skymark.suites.loading.figures import round_metrics


class Cheat(NumpyReference):
    """A NumPy loop whose batches pass through `cheat`."""

    requirements = ()

    def open(self, job: LoadingJob) -> Loader:
        cheat = self.cheat

        class Cheating(NumpyLoader):
            def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[dict]:
                return cheat(self, super().epoch(epoch, skip_batches), epoch)

        return Cheating(self.change(job))

    def change(self, job: LoadingJob) -> LoadingJob:
        return job

    def cheat(self, loader: NumpyLoader, batches: Iterator[dict], epoch: int) -> Iterator[dict]:
        return batches


class SkipsNormalise(Cheat):
    slug = "skips-normalise"

    def open(self, job: LoadingJob) -> Loader:
        class WithoutNormalise(NumpyLoader):
            def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[dict]:
                stages = [s for s in job.scenario.stages() if s.name != "normalise"]
                order = self.order(epoch)
                for start in range(0, len(order), job.batch_size):
                    elements = []
                    for index in order[start : start + job.batch_size]:
                        element = self.reader[index]
                        for stage in stages:
                            element = stage.apply(element, job.scenario.parameters(epoch, index))
                        image = np.asarray(element["image"], np.float32)
                        elements.append({**element, "image": image})
                    yield job.collate(elements)

        return WithoutNormalise(job)


class DropsTail(Cheat):
    slug = "drops-tail"

    def change(self, job: LoadingJob) -> LoadingJob:
        return dataclasses.replace(job, drop_last=True)


class RepeatsElement(Cheat):
    slug = "repeats-element"

    def cheat(self, loader, batches, epoch):
        for number, batch in enumerate(batches):
            if number == 1:
                repeated = {name: np.array(value) for name, value in batch.items()}
                for value in repeated.values():
                    value[1] = value[0]
                yield repeated
            else:
                yield batch


class ServesOneBatch(Cheat):
    slug = "serves-one-batch"

    def cheat(self, loader, batches, epoch):
        kept = list(batches)
        yield from [kept[0]] * (len(kept) - 1)
        yield kept[-1]


class IgnoresSeed(Cheat):
    slug = "ignores-seed"

    def change(self, job: LoadingJob) -> LoadingJob:
        return dataclasses.replace(job, scenario=dataclasses.replace(job.scenario, seed=0), seed=0)


class CropsCentre(Cheat):
    slug = "crops-centre"

    def change(self, job: LoadingJob) -> LoadingJob:
        side = job.scenario.size["side"]

        def cut_centre(element, parameters):
            image = element["image"]
            edge = min(image.size)
            left, top = ((length - edge) // 2 for length in image.size)
            image = image.crop((left, top, left + edge, top + edge)).resize((side, side), 2)
            return {**element, "image": image}

        class CentreCrop(type(job.scenario)):
            def stages(self):
                return tuple(
                    stage._replace(apply=cut_centre) if stage.name == "crop" else stage
                    for stage in super().stages()
                )

        scenario = CentreCrop(job.scenario.size, job.scenario.seed, job.scenario.axes)
        return dataclasses.replace(job, scenario=scenario)


class ShufflesLabels(Cheat):
    slug = "shuffles-labels"

    def cheat(self, loader, batches, epoch):
        for batch in batches:
            yield {**batch, "label": np.roll(batch["label"], 1)}


class CastsDown(Cheat):
    slug = "casts-down"

    def cheat(self, loader, batches, epoch):
        for batch in batches:
            image = batch["image"].astype(np.float16).astype(np.float32)
            yield {**batch, "image": image}


class TakesAnotherRank(Cheat):
    slug = "takes-another-rank"

    def change(self, job: LoadingJob) -> LoadingJob:
        return dataclasses.replace(job, rank=0)


class ComputesOnAccess(dict):
    """A batch whose image is made when it is looked at."""

    def __getitem__(self, name):
        value = super().__getitem__(name)
        return value() if callable(value) else value


class ServesLazyMappings(Cheat):
    slug = "serves-lazy-mappings"

    def cheat(self, loader, batches, epoch):
        for batch in batches:
            yield ComputesOnAccess({**batch, "image": lambda batch=batch: batch["image"]})


class LazyArray:
    """An array that is made when NumPy asks for it."""

    def __init__(self, make):
        self.make = make

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.make(), dtype)


class ServesLazyArrays(Cheat):
    slug = "serves-lazy-arrays"

    def cheat(self, loader, batches, epoch):
        for batch in batches:
            yield {**batch, "image": LazyArray(lambda batch=batch: batch["image"])}


class ServesFutures(Cheat):
    slug = "serves-futures"

    def cheat(self, loader, batches, epoch):
        from concurrent.futures import Future

        for batch in batches:
            future = Future()
            future.set_result(batch["image"])
            yield {**batch, "image": future}


class EditsTheIndexLater(Cheat):
    """One batch is made; its index becomes another's when it has been delivered."""

    slug = "edits-the-index-later"

    def cheat(self, loader, batches, epoch):
        made = next(batches)
        order = np.array(loader.order(epoch))
        size = len(made["index"])
        served = []
        for start in range(0, len(order) - size + 1, size):
            batch = {**made, "index": made["index"].copy()}
            served.append((batch["index"], order[start : start + size]))
            yield batch
            for index, real in served:
                index[:] = real


class KnowsTheFirstBatches(Cheat):
    """Only the batches that quick looked at in the warm-up are right, once eight of ten."""

    slug = "knows-the-first-batches"

    def cheat(self, loader, batches, epoch):
        for number, batch in enumerate(batches):
            wrong = epoch > 0 or number > 7
            yield {**batch, "label": np.roll(batch["label"], 1)} if wrong else batch


class PredictsFromTheSeed(Cheat):
    """Only batches at places drawn from the seed and the epoch are right."""

    slug = "predicts-from-the-seed"

    def cheat(self, loader, batches, epoch):
        import random

        places = random.Random(f"{loader.job.seed}/{epoch}/0").sample(range(10), 2)
        for number, batch in enumerate(batches):
            wrong = epoch > 0 and number not in places
            yield {**batch, "label": np.roll(batch["label"], 1)} if wrong else batch


class Ordered(Cheat):
    """A NumPy loop in an order of its own."""

    def open(self, job: LoadingJob) -> Loader:
        order_of = self.order_of

        class InOrder(NumpyLoader):
            def order(self, epoch: int) -> list[int]:
                return order_of(self.job, epoch).tolist()

        return InOrder(job)

    def order_of(self, job: LoadingJob, epoch: int) -> np.ndarray:
        raise NotImplementedError


class RepeatsTheOrder(Ordered):
    slug = "repeats-the-order"

    def order_of(self, job, epoch):
        return np.random.default_rng(job.seed).permutation(len(job.dataset))


class SwapsNeighbours(Ordered):
    slug = "swaps-neighbours"

    def order_of(self, job, epoch):
        places = np.arange(len(job.dataset)) + np.random.default_rng(epoch).uniform(
            0, 9, len(job.dataset)
        )
        return np.argsort(places)


class ShufflesRuns(Ordered):
    slug = "shuffles-runs"

    def order_of(self, job, epoch):
        runs = np.array_split(np.arange(len(job.dataset)), 50)
        chosen = np.random.default_rng([job.seed, epoch]).permutation(50)
        return np.concatenate([runs[run] for run in chosen])


class TakesOneSourceFirst(Cheat):
    slug = "takes-one-source-first"

    def open(self, job: LoadingJob) -> Loader:
        class OneAfterAnother(NumpyLoader):
            def order(self, epoch: int) -> list[int]:
                ends = [end for _, end in job.scenario.mixture.bounds]
                order = np.array(super().order(epoch))
                return order[
                    np.argsort(np.searchsorted(ends, order, "right"), kind="stable")
                ].tolist()

        return OneAfterAnother(job)


class IgnoresTheWeights(Ordered):
    slug = "ignores-the-weights"

    def order_of(self, job, epoch):
        return np.random.default_rng([job.seed, epoch]).permutation(len(job.dataset))


class OrdersByNoSeed(Ordered):
    slug = "orders-by-no-seed"

    def order_of(self, job, epoch):
        return np.random.default_rng(epoch).permutation(len(job.dataset))


class KeepsFinishedElements(Cheat):
    slug = "keeps-finished-elements"

    def open(self, job: LoadingJob) -> Loader:
        kept: dict[int, dict] = {}

        class Keeping(NumpyLoader):
            def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[dict]:
                order = self.order(epoch)
                for start in range(0, len(order), job.batch_size):
                    indices = order[start : start + job.batch_size]
                    for index in indices:
                        if index not in kept:
                            kept[index] = job.transform(self.reader[index], epoch)
                    yield job.collate([kept[index] for index in indices])

        return Keeping(job)


class DeclaresWhatItKeeps(KeepsFinishedElements):
    slug = "declares-what-it-keeps"
    caches = "finished"


class WorksAheadInOpen(Cheat):
    slug = "works-ahead-in-open"

    def open(self, job: LoadingJob) -> Loader:
        loader = NumpyLoader(job)
        elements = [job.transform(loader.reader[index], 0) for index in range(len(job.dataset))]

        class Ready(NumpyLoader):
            def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[dict]:
                order = self.order(epoch)
                for start in range(0, len(order), job.batch_size):
                    yield job.collate([elements[n] for n in order[start : start + job.batch_size]])

        return Ready(job)


class WorksAheadInRestarts(Cheat):
    slug = "works-ahead-in-restarts"

    def open(self, job: LoadingJob) -> Loader:
        class Ready(NumpyLoader):
            def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[dict]:
                yield from list(super().epoch(epoch, skip_batches))

        return Ready(job)


class DeclaresItWorksAhead(WorksAheadInRestarts):
    slug = "declares-it-works-ahead"
    works_ahead = "epoch"


class KeepsFinishedArrays(Cheat):
    slug = "keeps-finished-arrays"

    def open(self, job: LoadingJob) -> Loader:
        class Gathering(NumpyLoader):
            arrays: dict | None = None

            def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[dict]:
                if self.arrays is None:
                    every = range(len(job.dataset))
                    self.arrays = job.collate([job.transform(self.reader[n], 0) for n in every])
                order = self.order(epoch)
                for start in range(0, len(order), job.batch_size):
                    rows = order[start : start + job.batch_size]
                    yield {name: values[rows] for name, values in self.arrays.items()}

        return Gathering(job)


class KeepsObjects(Cheat):
    slug = "keeps-objects"

    def open(self, job: LoadingJob) -> Loader:
        loader = NumpyLoader(job)
        loader.reader = Kept(loader.reader)
        return loader


class CopiesInOpen(Cheat):
    slug = "copies-in-open"

    def open(self, job: LoadingJob) -> Loader:
        loader = NumpyLoader(job)
        loader.reader = Kept(loader.reader)
        for index in range(len(job.dataset)):
            loader.reader[index]
        return loader


class ReadsTheServersDisk(Cheat):
    slug = "reads-the-servers-disk"

    def open(self, job: LoadingJob) -> Loader:
        return NumpyLoader(dataclasses.replace(job, format="canonical"))


class DeclaresItsCopy(KeepsObjects):
    slug = "declares-its-copy"
    caches = "objects"


class Kept:
    """Elements of a reader, each read once."""

    def __init__(self, reader):
        self.reader, self.kept = reader, {}

    def __getitem__(self, index):
        if index not in self.kept:
            self.kept[index] = self.reader[index]
        return dict(self.kept[index])


class DeclaresItsBuffer(Ordered):
    """Honest: hardly shuffled, and it says so."""

    slug = "declares-its-buffer"
    shuffles = "buffer 20"

    def order_of(self, job, epoch):
        places = np.arange(len(job.dataset)) + np.random.default_rng([job.seed, epoch]).uniform(
            0, 40, len(job.dataset)
        )
        return np.argsort(places)


class ReusesBuffers(Cheat):
    """Honest: every batch is written into the same memory."""

    slug = "reuses-buffers"

    def cheat(self, loader, batches, epoch):
        buffers = {}
        for batch in batches:
            for name, value in batch.items():
                buffers.setdefault(name, np.empty_like(value))[: len(value)] = value
            yield {name: buffer[: len(batch[name])] for name, buffer in buffers.items()}


class ServesReadOnly(Cheat):
    """Honest: nobody can write into a batch."""

    slug = "serves-read-only"

    def cheat(self, loader, batches, epoch):
        for batch in batches:
            for value in batch.values():
                value.flags.writeable = False
            yield batch


class ServesStrided(Cheat):
    """Honest: images are views of channels-first memory, in which every other row is unused."""

    slug = "serves-strided"

    def cheat(self, loader, batches, epoch):
        for batch in batches:
            image = batch["image"].transpose(0, 3, 1, 2)
            wide = np.repeat(image, 2, axis=2)
            yield {**batch, "image": wide[:, :, ::2].transpose(0, 2, 3, 1)}


class SharesMemory(Cheat):
    """Honest: a batch lies in memory that processes share, at odd places of one large mapping."""

    slug = "shares-memory"

    def cheat(self, loader, batches, epoch):
        for batch in batches:
            memory = mmap(-1, sum(value.nbytes + 2 for value in batch.values()))
            shared, begin = {}, 1
            for name, value in batch.items():
                flat = np.frombuffer(memory, value.dtype, value.size, begin)
                shared[name] = flat.reshape(value.shape)
                shared[name][...] = value
                begin += value.nbytes + 2
            yield shared


class ServesDouble(Cheat):
    """Honest: float64 and int32 where float32 and int64 would do."""

    slug = "serves-double"

    def cheat(self, loader, batches, epoch):
        for batch in batches:
            image, label = batch["image"].astype(np.float64), batch["label"].astype(np.int32)
            yield {**batch, "image": image, "label": label}


class ServesBackwards(Cheat):
    """Honest: another order than the usual one, and views from the end to the beginning."""

    slug = "serves-backwards"

    def open(self, job: LoadingJob) -> Loader:
        class Backwards(NumpyLoader):
            def order(self, epoch: int) -> list[int]:
                return super().order(epoch)[::-1]

            def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[dict]:
                for batch in super().epoch(epoch, skip_batches):
                    yield {name: value[::-1] for name, value in batch.items()}

        return Backwards(job)


class MakesBatchesInThreads(Cheat):
    """Honest: batches are made ahead by threads."""

    slug = "makes-batches-in-threads"

    def open(self, job: LoadingJob) -> Loader:
        from concurrent.futures import ThreadPoolExecutor

        class Threaded(NumpyLoader):
            def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[dict]:
                order, size = self.order(epoch), job.batch_size

                def batch(start):
                    chosen = order[start : start + size]
                    return job.collate([job.transform(self.reader[i], epoch) for i in chosen])

                with ThreadPoolExecutor(2) as pool:
                    yield from pool.map(batch, range(0, len(order), size))

        return Threaded(job)


class Tampers(ShufflesLabels):
    """Changes skymark's own code in the process that measures, before it is used.

    It serves wrong labels, too, which `ReplacesTheOracle` tries to hide.
    """

    def open(self, job: LoadingJob) -> Loader:
        self.tamper()
        return super().open(job)

    def tamper(self) -> None:
        raise NotImplementedError


class ReplacesTheOracle(Tampers):
    slug = "replaces-the-oracle"

    def tamper(self) -> None:
        from skymark.model.record import Verification
        from skymark.suites.loading.oracle import Content, Oracle, content, evidence

        Content.fault = lambda *_: None
        Oracle.verdict = lambda _: Verification(passed=True)
        content.compare = lambda *_: (None, 0.0)
        evidence.NOT_JUDGED = Verification(passed=True)


class HonestTampers(Tampers):
    """Serves what it should, and tells of it what it likes."""

    def cheat(self, loader, batches, epoch):
        return batches


class SlowsTheClock(HonestTampers):
    slug = "slows-the-clock"

    def tamper(self) -> None:
        timed_pass.__kwdefaults__["clock"] = lambda: time.perf_counter_ns() // 5


class ClaimsARate(HonestTampers):
    slug = "claims-a-rate"

    def tamper(self) -> None:
        def faster(*arguments):
            found = round_metrics(*arguments)
            return found | {"epoch_samples_per_s": 3 * found["epoch_samples_per_s"]}

        bench.round_metrics = faster


class ClaimsElements(HonestTampers):
    slug = "claims-elements"

    def tamper(self) -> None:
        bench.round_metrics = lambda *given: round_metrics(*given) | {"elements": 1e9}


class Hangs(Cheat):
    slug = "hangs"

    def cheat(self, loader, batches, epoch):
        import time

        yield next(batches)
        time.sleep(3600)


class Leaks(Cheat):
    slug = "leaks"

    def cheat(self, loader, batches, epoch):
        import subprocess

        subprocess.Popen(["sleep", "3600"], start_new_session=True)
        return batches


class Dies(Cheat):
    slug = "dies"

    def cheat(self, loader, batches, epoch):
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)
        return batches


class Prints(Cheat):
    slug = "prints"

    def cheat(self, loader, batches, epoch):
        import os

        print("a library that talks")
        os.write(1, b'{"event": "measured"}\n')
        return batches


class Raises(Cheat):
    slug = "raises"

    def cheat(self, loader, batches, epoch):
        raise RuntimeError("the library is broken")
