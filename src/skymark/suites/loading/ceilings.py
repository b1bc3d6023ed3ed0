"""Ceilings of a machine for a cell's work: the reference's decoder, its disk, its memory.

As a program in an adapter's venv, it measures how fast all cores decode a scenario's elements, with
nothing else to do. JPEG files are decoded by libjpeg-turbo with its own scaler where the drawn crop
allows it, FLAC and H.264 by FFmpeg, at one thread for each process.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from skymark.machine.children import die_with
from skymark.machine.disk import disk_bytes_per_s, memory_bytes_per_s, usable_cores
from skymark.model.record import Ceiling, MachineLimits, Record
from skymark.model.sizes import size_text
from skymark.suite.contract import CeilingRequest
from skymark.suites.loading.metrics import DECLARATION
from skymark.suites.loading.storage import Storage

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Dataset
    from skymark.suites.loading.scenario import Scenario
    from skymark.suites.loading.work import Stage

WORKED_S = 1.0
"""Time that one core works on elements, for each ceiling of the processor."""


def ceilings(record: Record, cache: Path) -> Sequence[Ceiling]:
    """Measure the ceilings of a cell's work: some seconds, in this process.

    A ceiling of the processor is one core's rate times the cores, as if cores did not slow one
    another. It counts the reference's work, so a library with faster operators can exceed it. It is
    absent if this Python lacks a package of the reference, such as Pillow.

    Args:
        record: record of a cell that was measured here.
        cache: directory of its data.
    """
    storage = Storage.of_cell(cache, record.cell)
    dataset = storage.dataset()
    return [
        *_of_processor(storage, dataset),
        *_of_disk(storage, len(dataset), record),
        *_of_memory(record),
    ]


def _of_processor(storage: Storage, dataset: Dataset) -> Iterator[Ceiling]:
    scenario, cores = storage.scenario, usable_cores()
    try:
        stages = scenario.stages()
    except ImportError:
        return
    parts = {"decode": [one for one in stages if one.name == "decode"], "work": list(stages)}
    for name, chosen in parts.items():
        if chosen:
            rate = elements_per_s(work_of(storage, dataset, chosen), len(dataset))
            yield Ceiling(
                name=name,
                rate=rate * cores,
                basis=f"{rate:,.0f} on one core × {cores}, by the reference's "
                f"{' + '.join(one.name for one in chosen)}",
            )


def work_of(storage: Storage, dataset: Dataset, stages: Sequence[Stage]) -> Callable[[int], None]:
    """Return a function that applies stages of the reference to one element, by its index."""
    scenario = storage.scenario

    def work(index: int) -> None:
        element, parameters = dataset[index], scenario.parameters(0, index)
        for stage in stages:
            element = stage.apply(element, parameters)

    return work


def elements_per_s(
    work: Callable[[int], None],
    elements: int,
    limit_s: float = WORKED_S,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the rate of one core on elements, in order, until the time is over.

    The first element is not counted, because it does imports and draws for all.
    """
    work(0)
    began_s = clock()
    done = 0
    while True:
        work(done % elements)
        done += 1
        taken_s = clock() - began_s
        if taken_s >= limit_s:
            return done / taken_s


def _of_disk(storage: Storage, elements: int, record: Record) -> Iterator[Ceiling]:
    files = [path for path in sorted(storage.canonical.rglob("*")) if path.is_file()]
    stored = sum(path.stat().st_size for path in files)
    rate = disk_bytes_per_s(sorted(files, key=lambda path: -path.stat().st_size))
    if rate is None or not stored:
        return
    cold = record.conditions.get("page_cache") == "cold"
    where = "" if cold else "; the measured data was in memory, but a larger data set will not be"
    yield Ceiling(
        name="disk",
        rate=rate * elements / stored,
        basis=f"{size_text(rate)}/s, {size_text(stored / elements)} stored per element{where}",
        binds=cold,
    )


def _of_memory(record: Record) -> Iterator[Ceiling]:
    rate_name = DECLARATION.deciding(record.metrics).name
    made, bytes_made = (record.metrics.get(one) for one in (rate_name, "bytes_per_s"))
    if made is None or bytes_made is None or not bytes_made.value:
        return
    each, rate = bytes_made.value / made.value, memory_bytes_per_s()
    yield Ceiling(
        name="memory",
        rate=rate / each,
        basis=f"{size_text(rate)}/s by one thread, {size_text(each)} delivered per element, "
        "copied once",
    )


# The decoder on all cores, in an adapter's venv


def limits_of(request: CeilingRequest) -> MachineLimits:
    """Measure how fast all cores decode the elements of a cell's scenario, in seconds."""
    storage = Storage.of_cell(request.cache, request.cell)
    cores = usable_cores()
    try:
        decode = decoder_of(storage.scenario)
        dataset = storage.dataset()
        rate = rate_at_once(work_of(storage, dataset, [decode]), len(dataset), cores)
    except ImportError as error:
        return MachineLimits(missing=f"{error.name or error} is not in the venv")
    codec = storage.scenario.codec if storage.data is None else "the data"
    name = f"decoding {codec} on {cores} {'core' if cores == 1 else 'cores'}"
    basis = f"elements per CPU second, one process for each core at once, {WORKED_S:g} s each"
    return MachineLimits(ceilings=(Ceiling(name=name, rate=rate, basis=basis),))


def decoder_of(scenario: Scenario) -> Stage:
    """Return the stage that decodes, in its quickest form: some pixels may differ a little.

    Raises:
        ImportError: this Python lacks its package.
    """
    from skymark.suites.loading.transforms.images import DECODED_SMALL

    decode = next(stage for stage in scenario.stages() if stage.name == "decode")
    return decode._replace(apply=decode.mistakes.get(DECODED_SMALL, decode.apply))


def rate_at_once(
    work: Callable[[int], None],
    elements: int,
    processes: int,
    limit_s: float = WORKED_S,
    begin_s: float = 20.0,
) -> float:
    """Return the joint rate of several processes that work on elements at the same time.

    The rate is per CPU second of each process, so that other programs hardly change it.

    Args:
        work: called with the index of an element.
        elements: number of elements; processes begin at equal distances.
        processes: forks of this process.
        limit_s: CPU time of each.
        begin_s: longest time until all have done their first element.
    """
    context = multiprocessing.get_context("fork")
    begin = partial(context.Barrier(processes).wait, begin_s)
    _SHARED[:] = [lambda first: _share(work, elements, first, begin, limit_s)]
    with ProcessPoolExecutor(processes, context, die_with, (os.getpid(),)) as pool:
        firsts = [elements * number // processes for number in range(processes)]
        return sum(pool.map(_own_share, firsts))


_SHARED: list[Callable[[int], float]] = []
"""The work of the forks; a fork inherits it, so that it need not be pickled."""


def _own_share(first: int) -> float:
    return _SHARED[0](first)


def _share(
    work: Callable[[int], None],
    elements: int,
    first: int,
    begin: Callable[[], object],
    limit_s: float,
) -> float:
    work(first)
    begin()

    def next_work(index: int) -> None:
        work((first + index) % elements)

    return elements_per_s(next_work, elements, limit_s, time.process_time)


if __name__ == "__main__":
    limits = limits_of(CeilingRequest.model_validate_json(sys.stdin.read()))
    sys.stdout.write(f"{limits.model_dump_json()}\n")
