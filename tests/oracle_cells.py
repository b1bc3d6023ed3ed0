"""Wrong and honest loaders in one table, and a command that says which verdicts are wrong.

    python -m tests.oracle_cells [PART…]

Each row is a loader that differs from the NumPy reference in one way. A wrong one does other work
than was asked for, or takes credit for work that it did not do in the timed region; it must not end
`ok`. An honest one does its work in an unusual form; it must end `ok`.
"""

# ruff: noqa: N801 - an adapter's `loader` is a class

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from skymark.measure.loop import timed_pass
from skymark.suites.loading.adapter import LoadingJob
from skymark.suites.loading.adapters.numpy import NumpyLoader, NumpyReference

Change = Callable[["Loader", Iterator[dict], int], Iterator[Any]]


class Loader(NumpyLoader):
    """The reference's loop, with batches that pass through `change`."""

    change: Change

    def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[Any]:
        return type(self).change(self, super().epoch(epoch, skip_batches), epoch)


class Plain(NumpyReference):
    requirements: ClassVar = ()


@dataclass(frozen=True)
class Row:
    """One loader at one scenario."""

    kind: str
    honest: bool
    name: str
    cell: str
    """A scenario, and its axis and effort if those are not the usual ones."""


ROWS: list[Row] = []
TAB, NLP, PC = "TAB-1:small", "NLP-1:small", "PC-1:small"
CV, AU = "CV-1:small --effort check", "AU-1:small --effort check"
CV_RATE = "CV-1:small"
RANKS = "DIST-1:small --axis ranks=2"
EAGER = "IO-2:small --axis mode=eager"


def register(cls: type, kind: str, cells: tuple[str, ...], *, honest: bool) -> None:
    cls.slug = cls.__name__.lower()
    globals()[cls.__name__] = cls
    ROWS.extend(Row(kind, honest, cls.__name__, cell) for cell in cells)


def batches(kind: str, *cells: str, honest: bool = False, **attributes: Any) -> Any:
    """Register a change of batches as a loader."""

    def decorate(change: Change) -> Change:
        name = "".join(part.title() for part in change.__name__.split("_"))
        loader = type("Changing", (Loader,), {"change": change})
        register(type(name, (Plain,), {"loader": loader, **attributes}), kind, cells, honest=honest)
        return change

    return decorate


def adapters(kind: str, *cells: str, honest: bool = False) -> Any:
    """Register an adapter class."""

    def decorate(cls: type) -> type:
        register(cls, kind, cells, honest=honest)
        return cls

    return decorate


def edited(batch: dict, place: int, **values: Any) -> dict:
    """Return a batch with other values in one element."""
    copy = {name: np.array(value) for name, value in batch.items()}
    for name, value in values.items():
        copy[name][place] = value
    return copy


def array_of(batch: dict) -> str:
    """The name of a batch's largest field."""
    return max(batch, key=lambda name: np.asarray(batch[name]).nbytes)


# One wrong element among thousands.

ONE = "one wrong element"
LOST = 137
"""The element that the loaders of this kind get wrong."""


def one_wrong(*cells: str) -> Any:
    def decorate(wrong: Callable[[dict, int], dict]) -> Any:
        def change(loader: Loader, batches: Iterator[dict], epoch: int) -> Iterator[dict]:
            for batch in batches:
                where = np.flatnonzero(batch["index"] == LOST)
                yield wrong(batch, int(where[0])) if where.size else batch

        change.__name__ = wrong.__name__
        return batches(ONE, *cells)(change)

    return decorate


@one_wrong(TAB, CV, PC)
def hides_with_zeros(batch, place):
    return edited(batch, place, **{array_of(batch): 0})


@one_wrong(TAB, CV, PC)
def hides_with_its_neighbour(batch, place):
    name = array_of(batch)
    return edited(batch, place, **{name: batch[name][place - 1]})


@one_wrong(TAB, CV)
def hides_with_the_mean(batch, place):
    name = array_of(batch)
    return edited(batch, place, **{name: batch[name].mean()})


@one_wrong(TAB, CV)
def hides_with_noise(batch, place):
    name = array_of(batch)
    noise = np.random.default_rng(1).normal(0, 1, batch[name][place].shape)
    return edited(batch, place, **{name: noise})


@one_wrong(TAB, CV)
def labels_one_wrongly(batch, place):
    return edited(batch, place, label=batch["label"][place] + 1)


@one_wrong(TAB, CV)
def flips_one(batch, place):
    name = array_of(batch)
    return edited(batch, place, **{name: batch[name][place][..., ::-1]})


@one_wrong(TAB)
def scales_one(batch, place):
    name = array_of(batch)
    return edited(batch, place, **{name: batch[name][place] * 1.01})


@one_wrong(TAB)
def exchanges_two_values(batch, place):
    name = array_of(batch)
    row = batch[name][place].copy()
    row[[0, 1]] = row[[1, 0]]
    return edited(batch, place, **{name: row})


@one_wrong(NLP)
def hides_with_padding(batch, place):
    name = array_of(batch)
    return edited(batch, place, **{name: 0})


@one_wrong(NLP)
def drops_the_last_token(batch, place):
    name = array_of(batch)
    row = batch[name][place].copy()
    row[-1] = 0 if row[-1] else 1
    return edited(batch, place, **{name: row})


# Work remembered from earlier epochs.

KEPT = "kept work"


class Remembering(NumpyLoader):
    """Keeps what `make` returns for each element, in `store`."""

    def epoch(self, epoch: int, skip_batches: int = 0) -> Iterator[dict]:
        job, order = self.job, self.order(epoch)
        for start in range(0, len(order), job.batch_size):
            yield job.collate(
                [self.remembered(n, epoch) for n in order[start : start + job.batch_size]]
            )

    store: ClassVar[dict | None] = None

    def remembered(self, index, epoch):
        if self.store is None:
            self.store = {}
        if index not in self.store:
            self.store[index] = self.job.transform(self.reader[index], epoch)
        return self.store[index]


@adapters(KEPT, TAB, PC, NLP, "MM-1:small")
class RemembersElements(Plain):
    loader = Remembering


@adapters(KEPT, PC, NLP)
class RemembersOnDisk(Plain):
    """Pickles elements in one epoch, and reads them in the next ones."""

    class loader(Remembering):
        def remembered(self, index, epoch):
            import pickle

            if self.store is None:
                self.store = {}
                self.file = tempfile.TemporaryFile()  # noqa: SIM115 - until the process ends
            if index not in self.store:
                element = self.job.transform(self.reader[index], epoch)
                self.file.seek(0, 2)
                self.store[index] = self.file.tell()
                pickle.dump(element, self.file)
                return element
            self.file.seek(self.store[index])
            return pickle.load(self.file)


@adapters(KEPT, TAB, NLP)
class RemembersWholeArrays(Plain):
    class loader(NumpyLoader):
        arrays = None

        def epoch(self, epoch, skip_batches=0):
            job = self.job
            if self.arrays is None:
                self.parts, order = [], self.order(epoch)
                for batch in super().epoch(epoch):
                    self.parts.append(batch)
                    yield batch
                back = np.argsort(np.concatenate([part["index"] for part in self.parts]))
                self.arrays = {
                    name: np.concatenate([part[name] for part in self.parts])[back]
                    for name in self.parts[0]
                }
                return
            order = self.order(epoch)
            for start in range(0, len(order), job.batch_size):
                rows = order[start : start + job.batch_size]
                yield {name: values[rows] for name, values in self.arrays.items()}


@adapters(KEPT, CV_RATE, "CV-3:small")
class RemembersDecoded(Plain):
    """Decodes once, and crops anew."""

    class loader(NumpyLoader):
        kept = None

        def epoch(self, epoch, skip_batches=0):
            job, order = self.job, self.order(epoch)
            first, *rest = job.scenario.stages()
            if self.kept is None:
                self.kept = {}
            for start in range(0, len(order), job.batch_size):
                elements = []
                for n in order[start : start + job.batch_size]:
                    parameters = job.scenario.parameters(epoch, n)
                    if n not in self.kept:
                        self.kept[n] = first.apply(self.reader[n], parameters)
                        image = self.kept[n].get("image")
                        if hasattr(image, "load"):
                            image.load()
                    element = dict(self.kept[n])
                    for stage in rest:
                        element = stage.apply(element, parameters)
                    elements.append(element)
                yield job.mix(job.collate(elements), epoch)


@adapters(KEPT, AU, "MM-1:small")
class WorksBeforeItIsAsked(Plain):
    class loader(NumpyLoader):
        def __init__(self, job):
            super().__init__(job)
            self.ready_made = {e: list(super(type(self), self).epoch(e)) for e in range(8)}

        def epoch(self, epoch, skip_batches=0):
            yield from self.ready_made.get(epoch) or super().epoch(epoch)


# Data exchanged on disk between two looks.

DISK = "data exchanged"


class Exchanging(Plain):
    """Rewrites a file of the canonical data while it is measured, and puts it back or not."""

    puts_back: ClassVar = False
    renames: ClassVar = False

    def open(self, job: LoadingJob) -> NumpyLoader:
        directory = job.dataset.directory
        path = max(directory.glob("*.npy"), key=lambda path: path.stat().st_size)
        self.path, self.before = path, path.read_bytes()
        self.exchange(path, bytes(self.changed(self.before)))
        job = dataclasses.replace(job, dataset=type(job.dataset)(directory))
        return super().open(job)

    def changed(self, content: bytes) -> bytes:
        half = len(content) // 2
        return content[: len(content) - 4096] + content[half : half + 4096]

    def exchange(self, path: Path, content: bytes) -> None:
        times = path.stat()
        if self.renames:
            new = path.with_suffix(".new")
            new.write_bytes(content)
            new.rename(path)
        else:
            path.write_bytes(content)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def close(self) -> None:
        if self.puts_back and hasattr(self, "path"):
            self.exchange(self.path, self.before)


@adapters(DISK, TAB)
class ExchangesData(Exchanging):
    pass


@adapters(DISK, TAB)
class ExchangesDataByName(Exchanging):
    renames = True


@adapters(DISK, TAB)
class ExchangesDataAndBack(Exchanging):
    def open(self, job):
        loader = super().open(job)
        end = loader.close

        def close():
            end()
            self.exchange(self.path, self.before)

        loader.close = close
        return loader


@batches(DISK, TAB, PC)
def exchanges_after_the_first_epoch(loader, batches, epoch):
    if epoch == 1:
        path = max(loader.job.dataset.directory.glob("*.npy"), key=lambda path: path.stat().st_size)
        path.write_bytes(path.read_bytes())
    yield from batches


# An order that differs from process to process.

ORDER = "another order"


class Ordered(NumpyLoader):
    def order(self, epoch):
        order = np.array(super().order(epoch))
        return (
            np.random.default_rng([self.salt(), self.job.seed, epoch]).permutation(order).tolist()
        )

    def salt(self) -> int:
        raise NotImplementedError


def ordered(*cells: str) -> Any:
    def decorate(salt: Callable[[], int]) -> Callable[[], int]:
        name = "".join(part.title() for part in salt.__name__.split("_"))
        loader = type("Salted", (Ordered,), {"salt": lambda self: salt()})
        register(type(name, (Plain,), {"loader": loader}), ORDER, cells, honest=False)
        return salt

    return decorate


@ordered(TAB, "TAB-1:tiny", CV)
def orders_by_process():
    return os.getpid()


@ordered(TAB, "TAB-1:tiny", NLP)
def orders_by_hash():
    return abs(hash("a name")) % 2**31


@ordered(TAB, CV)
def orders_by_set():
    return int(next(iter({"1", "2", "3", "4", "5", "6", "7", "8", "9"})))


START = time.time_ns() % 2**31


@ordered(TAB, "TAB-1:tiny")
def orders_by_the_time():
    return START


CHANCE = random.SystemRandom().randrange(2**31)


@ordered(TAB, PC)
def orders_by_chance():
    return CHANCE


# Ranks.

SHARES = "ranks"


class Unequal(NumpyLoader):
    def order(self, epoch):
        job = self.job
        everyone = dataclasses.replace(job, rank=0, world=1).order(epoch)
        return self.part(everyone, job.rank, job.world).tolist()

    def part(self, order, rank, world):
        cut = len(order) * 3 // 4 if world == 2 else len(order)
        return order[:cut] if rank == 0 else order[cut:]


FOUR = "DIST-1:small --axis ranks=4"


@adapters(SHARES, RANKS)
class SharesUnequally(Plain):
    loader = Unequal


@adapters(SHARES, FOUR)
class GivesTheFirstRankMore(Plain):
    class loader(Unequal):
        def part(self, order, rank, world):
            cuts = [0, *(len(order) * (2 + n) // (1 + world) for n in range(world))]
            return order[cuts[rank] : cuts[rank + 1]]


@adapters(SHARES, RANKS, FOUR)
class LeavesOneRankWithout(Plain):
    class loader(Unequal):
        def part(self, order, rank, world):
            if world == 1:
                return order
            return order[:64] if rank == world - 1 else order[64:][rank :: world - 1]


@batches(SHARES, RANKS, FOUR)
def sleeps_alone(loader, batches, epoch):
    for batch in batches:
        if loader.job.world == 1:
            time.sleep(0.002)
        yield batch


@batches(SHARES, RANKS)
def idles_alone(loader, batches, epoch):
    for batch in batches:
        until = time.perf_counter() + (0.002 if loader.job.world == 1 else 0)
        while time.perf_counter() < until:
            pass
        yield batch


@batches(SHARES, RANKS)
def makes_each_four_times_alone(loader, batches, epoch):
    for batch in batches:
        if loader.job.world == 1:
            for index in 3 * batch["index"].tolist():
                loader.job.transform(loader.reader[index], epoch)
        yield batch


# Few bits, or a shifted mean, under a native tolerance.

BITS = "few bits"
NATIVE = {"native": frozenset({"CV-1", "CV-3", "CV-4", "AU-1", "MM-1", "TAB-1", "PC-1"})}


def floats(batch: dict) -> str:
    return max(
        (name for name, value in batch.items() if np.asarray(value).dtype.kind == "f"),
        key=lambda name: batch[name].nbytes,
    )


def natively(*cells: str) -> Any:
    def decorate(work: Callable[[np.ndarray], np.ndarray]) -> Any:
        def change(loader, batches, epoch):
            for batch in batches:
                name = floats(batch)
                yield {**batch, name: work(batch[name]).astype(np.float32)}

        change.__name__ = work.__name__
        return batches(BITS, *cells, **NATIVE)(change)

    return decorate


@natively(CV, "CV-3:small --effort check")
def has_six_bits(image):
    return np.round(image * 16) / 16


@natively(CV)
def has_five_bits_between(image):
    return np.floor(image * 16) / 16 + 0.013


@natively(CV)
def has_four_bits_of_mantissa(image):
    return (image.view(np.uint32) & np.uint32(0xFFF80000)).view(np.float32) * 1.0001


@natively(CV, "CV-3:small --effort check")
def has_a_shifted_mean(image):
    return image + 0.03


@natively(CV)
def is_darker(image):
    return image - 0.02


@natively(CV)
def has_less_contrast(image):
    return image * 0.97


@natively(AU)
def has_a_shifted_sound(sound):
    return sound + 2e-4


@natively(TAB)
def has_half_precision(values):
    return values.astype(np.float16).astype(np.float32) * np.float32(1.0000002)


@natively(TAB)
def has_shifted_values(values):
    return values + 9e-4


# Smaller batches.

SIZES = "smaller batches"


def split(batch: dict, size: int) -> Iterator[dict]:
    for start in range(0, len(batch["index"]), size):
        yield {name: value[start : start + size] for name, value in batch.items()}


@batches(SIZES, TAB, CV, short_batch_per_worker=10_000)
def halves_its_batches(loader, batches, epoch):
    for batch in batches:
        yield from split(batch, loader.job.batch_size // 2)


@batches(SIZES, TAB, NLP, short_batch_per_worker=10_000)
def delivers_single_elements_at_times(loader, batches, epoch):
    for number, batch in enumerate(batches):
        yield from split(batch, 1 if number % 8 == 3 else loader.job.batch_size)


@batches(SIZES, TAB, short_batch_per_worker=3)
def has_six_tails(loader, batches, epoch):
    for number, batch in enumerate(batches):
        yield from split(batch, loader.job.batch_size // 2 if number < 6 else loader.job.batch_size)


@adapters(SIZES, TAB, CV)
class ChangesTheJob(Plain):
    def open(self, job):
        object.__setattr__(job, "batch_size", job.batch_size // 4)
        return super().open(job)


@batches(SIZES, "NLP-3:small")
def halves_batches_of_buckets(loader, batches, epoch):
    for batch in batches:
        yield from split(batch, loader.job.batch_size // 2)


@adapters(SIZES, TAB)
class ChangesTheBatchesOfTheVariant(Plain):
    def open(self, job):
        size = job.scenario.size
        object.__setattr__(size, "batch_size", size.batch_size // 2)
        object.__setattr__(job, "batch_size", size.batch_size)
        return super().open(job)


# Eager modes that stream.

LAZY = "eager that streams"


@adapters(LAZY, EAGER)
class ReadsOnDemand(Plain):
    def open(self, job):
        return super().open(dataclasses.replace(job, format="canonical"))


@adapters(LAZY, EAGER)
class LoadsHalf(Plain):
    class loader(NumpyLoader):
        def __init__(self, job):
            super().__init__(dataclasses.replace(job, format="canonical"))
            self.held = [self.reader[n] for n in range(len(job.dataset) // 2)]
            self.held = [{k: np.array(v) for k, v in one.items()} for one in self.held]


@adapters(LAZY, EAGER)
class LoadsInTheBackground(Plain):
    class loader(NumpyLoader):
        def __init__(self, job):
            super().__init__(dataclasses.replace(job, format="canonical"))
            self.held = []
            threading.Thread(target=self.load, daemon=True).start()

        def load(self):
            for n in range(len(self.job.dataset)):
                self.held.append({k: np.array(v) for k, v in self.reader[n].items()})
                time.sleep(0.001)


@adapters(LAZY, EAGER)
class KeepsWhatItHasRead(Plain):
    class loader(NumpyLoader):
        def __init__(self, job):
            super().__init__(dataclasses.replace(job, format="canonical"))
            self.reader = Keeping(self.reader)


class Keeping(dict):
    def __init__(self, reader):
        super().__init__()
        self.reader = reader

    def __missing__(self, index):
        self[index] = {name: np.array(value) for name, value in self.reader[index].items()}
        return self[index]


@adapters(LAZY, EAGER)
class MapsTheFile(Plain):
    class loader(NumpyLoader):
        def __init__(self, job):
            super().__init__(dataclasses.replace(job, format="canonical"))
            for column in job.dataset.columns:
                job.dataset.column(column.name).sum()


# Batches made while no clock runs.

PAUSE = "made while no clock runs"


class Ahead(NumpyLoader):
    """A thread makes the batches of all epochs, `most` of them ahead."""

    most: ClassVar = 10**6
    epochs_ahead: ClassVar = 3

    def __init__(self, job):
        super().__init__(job)
        self.made: dict[int, list] = defaultdict(list)
        self.asked, self.ended = 0, False
        self.change = threading.Condition()
        self.thread = None

    def make(self):
        for epoch in range(10**6):
            for batch in super().epoch(epoch):
                with self.change:
                    self.made[epoch].append(batch)
                    self.change.notify_all()
                    self.change.wait_for(self.has_room)
                if self.ended:
                    return
            with self.change:
                self.made[epoch].append(None)
                self.change.notify_all()

    def has_room(self):
        return self.ended or sum(map(len, self.made.values())) < self.most

    def epoch(self, epoch, skip_batches=0):
        if self.thread is None:
            self.thread = threading.Thread(target=self.make, daemon=True)
            self.thread.start()
        while True:
            with self.change:
                self.change.wait_for(lambda: self.made[epoch])
                batch = self.made[epoch].pop(0)
                self.change.notify_all()
            if batch is None:
                return
            yield batch

    def close(self):
        with self.change:
            self.ended = True
            self.change.notify_all()


@adapters(PAUSE, CV_RATE, "MM-1:small", PC)
class MakesEpochsAhead(Plain):
    loader = Ahead


@adapters(PAUSE, CV_RATE, PC)
class MakesSixtyAhead(Plain):
    class loader(Ahead):
        most = 60


class Hoarding(NumpyLoader):
    """Makes the next epoch at the end of one, before it says that this one has ended, or after."""

    hoard: ClassVar[dict] = {}

    def epoch(self, epoch, skip_batches=0):
        yield from self.hoard.pop(epoch, None) or super().epoch(epoch)
        if epoch == 0:
            self.threaded(epoch + 1)

    def threaded(self, epoch):
        for following in range(epoch, epoch + 4):
            thread = threading.Thread(
                target=lambda n=following: self.hoard.__setitem__(
                    n, list(super(Hoarding, self).epoch(n))
                )
            )
            thread.start()
            self.threads = [*getattr(self, "threads", []), thread]


@adapters(PAUSE, CV_RATE, PC)
class HoardsAfterAnEpoch(Plain):
    class loader(Hoarding):
        def epoch(self, epoch, skip_batches=0):
            if epoch:
                for thread in getattr(self, "threads", []):
                    thread.join(0.05)
            yield from super().epoch(epoch)


@adapters(PAUSE, CV_RATE, PC)
class HoardsInTheWarmUp(Plain):
    class loader(NumpyLoader):
        hoard = None

        def epoch(self, epoch, skip_batches=0):
            if epoch == 0:
                self.hoard = {n: list(super(type(self), self).epoch(n)) for n in range(1, 12)}
            yield from self.hoard.pop(epoch, None) or super().epoch(epoch)


# A clock that the worker has moved.

CLOCK = "moved clock"


def clock(*cells: str) -> Any:
    def decorate(tamper: Callable[[], None]) -> Any:
        def open(self, job):
            tamper()
            return Plain.open(self, job)

        name = "".join(part.title() for part in tamper.__name__.split("_"))
        register(type(name, (Plain,), {"open": open}), CLOCK, cells, honest=False)
        return tamper

    return decorate


@clock(TAB, CV_RATE, PC)
def slows_the_clock_a_little():
    timed_pass.__kwdefaults__["clock"] = lambda: time.perf_counter_ns() * 5 // 6


@clock(TAB, CV_RATE)
def slows_the_clock_by_half():
    timed_pass.__kwdefaults__["clock"] = lambda: time.perf_counter_ns() // 2


real_ns, real_s = time.perf_counter_ns, time.perf_counter


@clock(TAB, CV_RATE)
def slows_every_clock():
    timed_pass.__kwdefaults__["clock"] = lambda: real_ns() * 3 // 4
    time.perf_counter_ns = lambda: real_ns() * 3 // 4
    time.perf_counter = lambda: real_s() * 3 / 4
    time.monotonic = lambda: real_s() * 3 / 4


@clock(TAB, PC)
def leaves_out_milliseconds():
    timed_pass.__kwdefaults__["clock"] = Skipping()


class Skipping:
    """A clock that stands still during a quarter of the calls' intervals."""

    def __init__(self):
        self.now, self.last, self.calls = 0, real_ns(), 0

    def __call__(self):
        now = real_ns()
        self.calls += 1
        if self.calls % 3:
            self.now += now - self.last
        else:
            self.now += (now - self.last) * 2 // 3
        self.last = now
        return self.now


@clock(TAB, CV_RATE)
def divides_the_waits():
    class Half(list):
        def append(self, value):
            super().append(value)

    from skymark.suites.loading.drives import epochs

    before = epochs.timed_pass

    def faster(*arguments, **named):
        done = before(*arguments, **named)
        done.wait_ns = [wait * 4 // 5 for wait in done.wait_ns]
        done.wall_ns = done.wall_ns * 4 // 5
        return done

    epochs.timed_pass = faster


# Honest loaders in an unusual form.

FORM = "honest"


def honest(*cells: str, **attributes: Any) -> Any:
    def decorate(change: Callable[[dict], Any]) -> Any:
        def changed(loader, batches, epoch):
            for batch in batches:
                yield change(batch)

        changed.__name__ = change.__name__
        batches(FORM, *cells, honest=True, **attributes)(changed)
        return change

    return decorate


@honest(TAB, CV)
def serves_an_ordered_dict(batch):
    return OrderedDict(batch)


@honest(TAB)
def serves_a_default_dict(batch):
    return defaultdict(list, batch)


@honest(TAB, CV)
def serves_a_user_dict(batch):
    return UserDict(batch)


@honest(TAB)
def serves_a_proxy(batch):
    return MappingProxyType(dict(batch))


@honest(TAB)
def serves_a_chain_map(batch):
    return ChainMap({"index": batch["index"]}, dict(batch))


class Encoding(Mapping):
    """A mapping like those of tokenizers: fields by name, and by attribute."""

    def __init__(self, fields):
        self._fields = fields

    def __getitem__(self, name):
        return self._fields[name]

    def __iter__(self):
        return iter(self._fields)

    def __len__(self):
        return len(self._fields)


@honest(TAB, CV, NLP)
def serves_a_mapping_of_its_own(batch):
    return Encoding(batch)


class Slotted:
    """A mapping without `Mapping`, with fields in slots."""

    __slots__ = ("names", "values_")

    def __init__(self, fields):
        self.names, self.values_ = list(fields), list(fields.values())

    def keys(self):
        return self.names

    def __getitem__(self, name):
        return self.values_[self.names.index(name)]


@honest(TAB)
def serves_slots(batch):
    return Slotted(batch)


class Fields(dict):
    """A dict whose fields are attributes, too."""

    __getattr__ = dict.__getitem__


@honest(TAB)
def serves_a_dict_with_attributes(batch):
    return Fields(batch)


@honest(TAB, CV, RANKS)
def lists_the_index(batch):
    return {**batch, "index": batch["index"].tolist()}


@honest(TAB)
def has_a_tuple_for_an_index(batch):
    return {**batch, "index": tuple(batch["index"].tolist())}


@honest(TAB)
def lists_numpy_numbers(batch):
    return {**batch, "index": list(batch["index"])}


@honest(TAB, CV)
def lists_the_labels(batch):
    return {**batch, "label": batch["label"].tolist()}


@honest(TAB)
def has_a_short_index(batch):
    return {**batch, "index": batch["index"].astype(np.int32)}


@honest(TAB)
def has_an_unsigned_index(batch):
    return {**batch, "index": batch["index"].astype(np.uint64)}


@honest(TAB)
def adds_names(batch):
    return {**batch, "name": [f"{number}.png" for number in batch["index"]]}


@honest(TAB)
def has_big_endian_values(batch):
    name = floats(batch)
    return {**batch, name: batch[name].astype(">f4")}


@honest(TAB, CV)
def has_views_from_a_buffer(batch):
    return {
        name: np.frombuffer(value.tobytes(), value.dtype).reshape(value.shape)
        for name, value in batch.items()
    }


@honest(TAB)
def maps_a_file(batch):
    name = floats(batch)
    with tempfile.NamedTemporaryFile() as file:
        mapped = np.memmap(file.name, np.float32, "w+", shape=batch[name].shape)
        mapped[:] = batch[name]
    return {**batch, name: mapped}


@adapters(FORM, TAB, CV, PC, RANKS, honest=True)
class HonestLoop(Plain):
    loader = NumpyLoader


@adapters(FORM, "MM-1:small", "PC-1:small", honest=True)
class DeclaresWhatItRemembers(Plain):
    loader = Remembering
    caches = "finished"


@adapters(FORM, CV, PC, honest=True)
class FillsItsQueues(Plain):
    """Makes as many batches ahead as was asked for."""

    class loader(Ahead):
        most = 4


@adapters(FORM, CV, honest=True)
class DeclaresThatItWorksAhead(Plain):
    loader = Ahead
    works_ahead = "epoch"


@adapters(FORM, TAB, honest=True)
class OrdersByChanceAndSaysSo(Plain):
    loader = type("Salted", (Ordered,), {"salt": lambda self: CHANCE})
    abilities = frozenset(NumpyReference.abilities - {"seeded", "worker-invariant"})


@adapters(FORM, EAGER, honest=True)
class IsEager(Plain):
    loader = NumpyLoader


@adapters(FORM, RANKS, honest=True)
class GivesEachRankABlock(Plain):
    class loader(Unequal):
        def part(self, order, rank, world):
            return np.array_split(order, world)[rank]


@batches(FORM, TAB, CV, honest=True, **NATIVE)
def rounds_otherwise(loader, batches, epoch):
    noise = np.random.default_rng(epoch)
    for batch in batches:
        name = floats(batch)
        off = noise.normal(0, 1e-4, batch[name].shape).astype(np.float32)
        yield {**batch, name: batch[name] + off}


# The command.

USUAL = ("--effort", "quick", "--rounds", "1")
"""Rounds are as long as a short run's; one is enough for what a single round can show."""


def groups(rows: list[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return the rows of each run; those that spoil their data have a run of their own."""
    grouped: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        grouped[row.cell, row.name if row.kind == DISK else ""].append(row)
    return grouped


def measured(rows: list[Row], directory: Path) -> dict[str, dict[str, Any]]:
    """Run the loaders of one group; return their records by name."""
    scenario, *options = [*rows[0].cell.split(), *(() if "--effort" in rows[0].cell else USUAL)]
    names = {row.name: f"{Path(__file__).resolve()}:{row.name}" for row in rows}
    command = [sys.executable, "-m", "skymark", "run", "--scenarios", scenario, *options]
    command += ["--adapters", *names.values(), "--json"]
    command += ["--output", str(directory / "out")]
    cache = {"SKYMARK_CACHE": str(directory / "cache")} if rows[0].kind == DISK else {}
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **cache}, check=False
    )
    if not done.stdout:
        raise SystemExit(done.stderr)
    by_slug = {record["cell"]["adapter"]: record for record in json.loads(done.stdout)["records"]}
    return {name: by_slug[name.lower()] for name in names}


def shown(row: Row, record: dict[str, Any]) -> str:
    """Return a line about one loader."""
    cause = record["cause"] or {"kind": "", "message": ""}
    verdict = f"{record['status']:8} {cause['kind']:18} {cause['message'][:100]}"
    mark = "  " if is_right(row, record) else "!!"
    return f"{mark} {row.kind:24} {row.name:36} {row.cell:30} {verdict}"


def judged(rows: list[Row]) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Measure loaders; yield each with its record."""
    for group in groups(rows).values():
        with tempfile.TemporaryDirectory() as directory:
            records = measured(group, Path(directory))
        for row in group:
            yield row, records[row.name]


def is_right(row: Row, record: dict[str, Any]) -> bool:
    """Whether a wrong loader was refused, or an honest one was not."""
    return (record["status"] == "ok") == row.honest


def main() -> None:
    """Measure the chosen loaders, and print a line for each and a summary for each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="parts of kinds or names; all loaders if none")
    parts = parser.parse_args().parts
    rows = [
        row
        for row in ROWS
        if not parts or any(part in f"{row.kind} {row.name}".lower() for part in parts)
    ]
    counts: Counter[tuple[str, bool]] = Counter()
    wrong: Counter[tuple[str, bool]] = Counter()
    begin = time.monotonic()
    for row, record in judged(rows):
        counts[row.kind, row.honest] += 1
        wrong[row.kind, row.honest] += not is_right(row, record)
        print(shown(row, record), flush=True)
    for (kind, is_honest), count in counts.items():
        sort, missed = "honest" if is_honest else "wrong", wrong[kind, is_honest]
        print(f"{kind}: {count} {sort}, {missed} judged wrongly")
    seconds = time.monotonic() - begin
    print(f"{counts.total()} loaders, {wrong.total()} judged wrongly, {seconds:.0f} s")
    sys.exit(bool(wrong.total()))


if __name__ == "__main__":
    main()
