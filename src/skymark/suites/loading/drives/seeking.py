"""Drive two fresh loaders, one from an epoch's start and one from its middle, and compare."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from skymark.measure.process_tree import TreeSampler
from skymark.suites.loading.devices import on_host
from skymark.suites.loading.drives import epochs
from skymark.suites.loading.drives.fresh import FreshLoader, PassOrder
from skymark.suites.loading.drives.outcome import Bench, Outcome
from skymark.suites.loading.drives.resuming import difference
from skymark.suites.loading.oracle import Elements, Order, kept_content, stream_of

if TYPE_CHECKING:
    from skymark.model.record import Resources
    from skymark.suites.loading.adapter import Loader
    from skymark.suites.loading.dataset.canonical import Array
    from skymark.suites.loading.drives.fresh import RemotePass

EPOCH = 1
"""Epoch of the compared stretches; the next epoch must differ from it."""

LEAST_S = 1.0
"""Least time of a stretch: enough batches to tell orders apart."""

PARTS = 16
"""Number of equal parts of storage; every stretch of a global shuffle has elements of each."""

ENOUGH = 1024
"""Least elements of such a stretch; a part is absent with probability 16 (15 / 16)**1024 = 3e-28.
"""


@dataclass(frozen=True)
class Stretch:
    """The batches of one fresh process from a position in an epoch on."""

    remote: RemotePass
    open_s: float
    peak_pss_bytes: int | None
    resources: Resources

    @property
    def batches(self) -> list[Array]:
        """The elements of each batch, ``[B]``."""
        return self.remote.done.indices

    @property
    def first_batch_s(self) -> float:
        """The time from opening the loader to the first batch."""
        return self.open_s + self.remote.done.wait_ns[0] / 1e9


def drive(bench: Bench) -> Outcome:
    """Measure a stretch from the middle of an epoch, beside one from its start, and verify both.

    Both loaders are fresh processes, opened one after another; their order alternates from round
    to round. Figures: ``open_to_first_batch_s`` and ``start_memory_bytes`` at the start, ``seek_s``
    and ``seek_memory_bytes`` in the middle, and ``fresh_import_s``, the slower import.
    """
    job = bench.job
    middle = len(job.dataset) // job.batch_size // 2
    places = (0, middle) if bench.round % 2 == 0 else (middle, 0)
    with ExitStack() as stack:
        loaders = [stack.enter_context(FreshLoader(bench.reference, {})) for _ in places]
        import_s = max(fresh.answer() for fresh in loaders)
        found = {
            place: stretch(bench, fresh, place, None if place else middle, timed=place == middle)
            for place, fresh in zip(places, loaders, strict=True)
        }
    outcome = bench.outcome(found[middle].open_s)
    outcome.extra["fresh_import_s"] = import_s
    outcome.resources = found[middle].resources
    outcome.add(found[middle].remote.done, EPOCH, measured=True)
    outcome.restart_ns = []  # no epoch was begun again
    if not all(one.batches for one in found.values()):
        bench.oracle.refuse("no-batches", f"epoch {EPOCH} delivered no batch at all")
        return outcome
    outcome.extra |= figures(found[0], found[middle])
    check_content(bench, found[0], found[middle])
    check_order(bench, middle, found[middle].batches)
    return outcome


def stretch(
    bench: Bench, fresh: FreshLoader, place: int, most: int | None, *, timed: bool
) -> Stretch:
    """Open a loader in a fresh process and run it from a batch of the epoch on.

    Args:
        bench: bench of the loader.
        fresh: the process.
        place: number of batches of the epoch to skip.
        most: most batches of the stretch, None for the epoch's rest.
        timed: whether it is the round's timed region.
    """
    seconds = max(LEAST_S, bench.limits.min_seconds if timed else 0)
    order = PassOrder(
        epoch=EPOCH,
        kept=epochs.batches_holding(bench.job, bench.limits.verified_elements),
        stop_after_ns=int(seconds * 1e9),
        skip=place,
        most=most,
    )
    sampler = TreeSampler(fresh.pid)
    with sampler:
        fresh.open(bench.job, bench.consumption)
        open_s = fresh.answer()
        if timed:
            bench.begin()
        fresh.run(order)
        remote = fresh.answer()
        resources = bench.region.ends() if timed else sampler.resources()
    fresh.close()  # so that its memory is not counted for the next process
    return Stretch(remote, open_s, sampler.resources().peak_pss_bytes, resources)


def figures(start: Stretch, middle: Stretch) -> dict[str, float]:
    """Return the time to the first batch and the memory at both places."""
    found = {
        "open_to_first_batch_s": start.first_batch_s,
        "seek_s": middle.first_batch_s,
        "start_memory_bytes": start.peak_pss_bytes,
        "seek_memory_bytes": middle.peak_pss_bytes,
    }
    return {name: value for name, value in found.items() if value is not None}


def check_content(bench: Bench, start: Stretch, middle: Stretch) -> None:
    """Require distinct elements in both stretches together, each equal to the reference's."""
    oracle, job = bench.oracle, bench.job
    for one in (start, middle):
        oracle.check_arrivals(EPOCH, one.remote.arrival_fault)
        bench.note_places(one.remote.places)
    both = [*start.batches, *middle.batches]
    oracle.check(Elements(EPOCH, both, complete=False, batch_size=job.batch_size))
    for one in (start, middle):
        oracle.check(*kept_content(EPOCH, one.batches, one.remote.done.kept))
        bench.note_sizes(one.remote.done.kept.values())


def check_order(bench: Bench, middle: int, batches: list[Array]) -> None:
    """Require the same stretch as in an unbroken run, and other stretches elsewhere.

    Elsewhere is the next epoch, and another seed.
    """
    oracle, job = bench.oracle, bench.job
    oracle.check(Order(EPOCH, batches))
    if bench.adapter.shuffle_kind(job) == "global" and (fault := absent_part(bench, batches)):
        oracle.refuse("hardly-shuffled", fault)
    rest = stream_of(batches)
    few = batches[: epochs.batches_holding(job, ENOUGH)]
    with bench.opened() as (loader, _):
        before, *after = run(loader, EPOCH, middle - 1, len(batches) + 1)
        next_epoch = run(loader, EPOCH + 1, middle, len(few))
    if fault := difference(before, stream_of(after), rest):
        place = middle * job.batch_size
        oracle.refuse("resume", f"started at element {place} of epoch {EPOCH}, {fault}")
    if np.array_equal(stream_of(few), stream_of(next_epoch)):
        oracle.refuse("same-order", f"epoch {EPOCH + 1} came in the order of epoch {EPOCH}")
    other = job.with_seed(job.seed + 1)
    with dataclasses.replace(bench, job=other).opened() as (loader, _):
        if np.array_equal(stream_of(few), stream_of(run(loader, EPOCH, middle, len(few)))):
            oracle.refuse(
                "ignored-seed",
                f"the order does not depend on the seed: seeds {job.seed} and {other.seed} gave "
                "the same order",
            )


def run(loader: Loader, epoch: int, place: int, count: int) -> list[Array]:
    """Return the elements of `count` batches from a position in an epoch on, untimed."""
    return [np.array(on_host(one["index"])) for one in islice(loader.seek(epoch, place), count)]


def absent_part(bench: Bench, batches: list[Array]) -> str | None:
    """Describe a part of storage without an element in a stretch; None if all parts have one."""
    stream, total = stream_of(batches), len(bench.job.dataset)
    counts = np.bincount((stream * PARTS // total).clip(0, PARTS - 1), minlength=PARTS)
    if len(stream) < ENOUGH or counts.all():
        return None
    part = int(np.argmin(counts))
    return (
        f"none of {len(stream)} elements from the middle of epoch {EPOCH} lies between "
        f"{part * total // PARTS} and {(part + 1) * total // PARTS} in storage; the adapter "
        "declares 'global'"
    )
