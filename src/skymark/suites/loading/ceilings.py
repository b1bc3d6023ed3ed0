"""Ceilings of a machine for a cell's work: the reference's decoder, its disk, its memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skymark.machine.disk import disk_bytes_per_s, memory_bytes_per_s, usable_cores
from skymark.model.record import Record
from skymark.model.sizes import size_text
from skymark.suite.contract import Ceiling
from skymark.suites.loading.metrics import DECLARATION
from skymark.suites.loading.storage import Storage

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Dataset
    from skymark.suites.loading.scenario import Stage

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
