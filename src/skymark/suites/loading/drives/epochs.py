"""Drive a loader for whole epochs: one to warm up, then as many as the effort allows."""

from __future__ import annotations

import dataclasses
import os
import resource
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skymark.measure.consumer import work_of
from skymark.measure.loop import FOREVER_NS, Pass, end, timed_pass
from skymark.measure.machine_watch import core_times
from skymark.measure.slices import Slices
from skymark.suites.loading.delivery.loader import transfer_of
from skymark.suites.loading.devices import devices_of, on_host
from skymark.suites.loading.drives.fresh import FreshLoader, PassOrder, RemotePass
from skymark.suites.loading.drives.outcome import Bench, Outcome, awaiting
from skymark.suites.loading.drives.stream import (
    FEWEST_EPOCHS,
    Enough,
    least_batches,
    queued_batches,
)
from skymark.suites.loading.oracle import CpuTime, Elements, Order, kept_content, stream_of
from skymark.suites.loading.oracle.arrival import Arrivals, NotingArrivals
from skymark.suites.loading.oracle.cost import FirstCost, PauseTime
from skymark.suites.loading.oracle.order import ENOUGH, SameOrder
from skymark.suites.loading.step.consumption import Consumption
from skymark.suites.loading.tuning import EVERY_ELEMENT

if TYPE_CHECKING:
    from skymark.suites.loading.adapter import Loader, LoadingJob
    from skymark.suites.loading.dataset.canonical import Array
    from skymark.suites.loading.oracle import HostBatch
    from skymark.suites.loading.work import Batch

KEPT_PER_EPOCH = 2
"""Whole batches kept in each measured epoch, at random places, to verify what was timed."""

KEPT_IN = 8
"""Epochs per epoch with kept batches, if epochs have no stream: a library continues during a copy,
which takes a good part of a short epoch."""

GRACE_S = 20.0
"""Longest extra time of a round to get its minimum number of batches."""

KEPT_BYTES = 1 << 28
"""Memory for kept batches of measured epochs, if all should be kept."""

RunEpoch = Callable[[int, int, float], Pass]
"""Runs one timed epoch, given its number, the number of batches to keep, and its most seconds."""

Verify = Callable[[int, Pass], None]
"""Checks an epoch, given its number and its pass."""


def drive(bench: Bench) -> Outcome:
    """Measure and verify one round; the first round also verifies that the seed sets the order."""
    outcome, (first, *_) = measured(bench, enough_for(bench))
    if bench.round == 0 and bench.job.shuffle:
        check_seed(bench, first)
        if bench.reference and not bench.is_shipped:
            check_elsewhere(bench, first)
        if bench.job.scenario.mixture is not None:
            check_again(bench, first)
    return outcome


def measured(bench: Bench, enough: Enough | None = None) -> tuple[Outcome, list[Pass]]:
    """Open a loader, measure and verify its epochs, and close it; see `measure` and `run_with`."""
    with bench.opened() as (loader, setup_s):
        outcome = bench.outcome(setup_s)
        middle, summary = Middle(bench), bench.summary
        note = WarmUpNote(middle.notes, summary.add)
        passes = measure(bench, outcome, run_with(bench, loader, enough, note))
        bench.oracle.check(*summary.check(0, stream_of(passes[0].indices)))
        if not bench.whole_warm_up:
            bench.oracle.check(*middle.cost(passes[0], outcome.sampled_elements))
        return outcome, passes


class WarmUpNote(NamedTuple):
    """What to do with the batches of epoch 0, outside the clock."""

    after: Mapping[int, Callable[[], None]]
    """Functions by the number of a batch."""
    every: Callable[[Batch], None]
    """Called with every batch."""


class Middle:
    """The CPU time of the middle half of epoch 0, when libraries have started and compiled."""

    def __init__(self, bench: Bench) -> None:
        batches = batches_holding(bench.job, bench.job.scenario.epoch_elements)
        self._bench = bench
        self._between = batches // 4, batches - batches // 4 - 1
        self._seen: list[tuple[float, int]] = []
        """CPU seconds, and switches between this process's threads, at both places."""
        self._look_s = 0.0
        self.notes = dict.fromkeys(self._between, self._note)
        """Functions to call after certain batches of epoch 0."""

    def _note(self) -> None:
        begin_s = time.thread_time()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self._seen.append((self._bench.cpu_s(), usage.ru_nvcsw + usage.ru_nivcsw))
        self._look_s = time.thread_time() - begin_s

    def cost(self, first: Pass, elements: int) -> Iterator[FirstCost]:
        """Yield the check that compares it with the elements of the measured epochs."""
        begin, end = self._between
        if len(self._seen) == 2:
            (cpu_s, switches), (cpu_after_s, switches_after) = self._seen
            of_middle = sum(map(len, first.indices[begin + 1 : end + 1]))
            # The end of the first look at all processes and the start of the second lie between.
            between_s = max(0.0, cpu_after_s - cpu_s - self._look_s)
            yield FirstCost(between_s, of_middle, switches_after - switches, elements)


def run_with(
    bench: Bench,
    loader: Loader,
    enough: Enough | None = None,
    note: WarmUpNote | None = None,
) -> RunEpoch:
    """Return a function that runs one timed epoch of a loader in this process.

    Args:
        bench: set up for the round.
        loader: open loader.
        enough: sufficient part of epoch 0, if its time is too short; None for all of it.
        note: what to do with the batches of epoch 0, outside the clock.
    """
    consumer = bench.consumption.consumer(bench.adapter, bench.job)
    least = least_batches(fewest_batches(bench), int((bench.limits.max_seconds + GRACE_S) * 1e9))

    def run(epoch: int, kept: int, seconds: float) -> Pass:
        arrivals = NotingArrivals(*note) if note and epoch == 0 else Arrivals()
        places: set[str] = set()
        most_ns = int(seconds * 1e9)
        part = enough if epoch == 0 else None
        measured_on = least if epoch else end
        done = timed_pass(
            lambda: loader.epoch(epoch),
            ready=awaiting(loader),
            keep=kept,
            stop_after_ns=most_ns if part is None else min(part.stream_ns, most_ns),
            go_on=measured_on if part is None else part.within(most_ns),
            consumer=consumer,
            copy=partial(noted_copy, loader, places),
            receiver=arrivals,
        )
        done.transfer, done.work = transfer_of(loader), work_of(consumer)
        bench.note_places(places)
        bench.oracle.check_arrivals(epoch, arrivals.cause)
        return done

    return run


def measure(
    bench: Bench,
    outcome: Outcome,
    run: RunEpoch,
    verified: Verify | None = None,
    passes_of: Callable[[int], Sequence[Pass]] | None = None,
) -> list[Pass]:
    """Run and verify a warm-up epoch and the measured ones; return them by epoch number.

    The warm-up epoch is timed too (its first wait is the time to first batch). Its content is
    verified at once, up to the effort's number of elements; the measured epochs follow.

    Args:
        bench: set up for the round.
        outcome: collects the epochs.
        run: runs one epoch.
        verified: checks an epoch; None for `verify`.
        passes_of: returns the passes of an epoch by rank, if ranks take the batches.
    """
    verified = verified or partial(verify, bench)
    warm = warm_up(bench, outcome, run, verified)
    sent = bench.sent_bytes()
    if bench.begin(in_slices=passes_of is None):
        bench.limits = bench.limits.with_other_side()
    outcome.pause_ends(bench.cpu_s())
    before = CoreClocks()
    passes = measured_epochs(bench, run)
    after = CoreClocks()
    outcome.resources = bench.region.ends()
    if bench.region.slices:
        slices = Slices(bench.region.slices)
        passes = [slices.live_part(done) for done in passes]
        outcome.extra["cut_waits"] = sum(sum(done.is_cut) for done in passes)
    elif passes_of is None:
        outcome.extra |= core_use(before, after, outcome.resources.cpu_s)
    sent = bench.sent_bytes() - sent
    first = first_measured(bench, passes)
    for epoch, done in enumerate(passes, 1):
        of_ranks = () if passes_of is None else passes_of(epoch)
        outcome.add(done, epoch, measured=epoch >= first, of_ranks=of_ranks)
        verified(epoch, done)
    bench.oracle.check(CpuTime(outcome.resources.cpu_s, outcome.sampled_elements))
    if bench.adapter.works_ahead == "queues":
        held = queued_batches(bench.job) * bench.job.world * bench.job.batch_size
        bench.oracle.check(PauseTime(outcome.pause_cpu_s, held, outcome.sampled_elements))
    bench.check_fetched(sent, outcome.sampled_elements)
    return [warm, *passes]


@dataclasses.dataclass(frozen=True)
class CoreClocks:
    """The clocks at one moment, in seconds."""

    wall_s: float = field(default_factory=time.perf_counter)
    consumer_s: float = field(default_factory=time.process_time)
    """CPU time of this process, which takes the batches, with all its threads."""
    idle_s: float = field(default_factory=lambda: core_times().idle)


def core_use(before: CoreClocks, after: CoreClocks, cpu_s: float | None) -> dict[str, float]:
    """Return the metrics of a loader's cores; empty without a CPU time.

    Args:
        before: before the measured epochs.
        after: after them.
        cpu_s: CPU seconds of the process tree meanwhile.
    """
    wall_s = after.wall_s - before.wall_s
    if cpu_s is None or wall_s <= 0:
        return {}
    return {
        "cores_used": cpu_s / wall_s,
        "cores_idle": max(0.0, after.idle_s - before.idle_s) / wall_s,
        "cores_of_consumer": (after.consumer_s - before.consumer_s) / wall_s,
    }


def warm_up(bench: Bench, outcome: Outcome, run: RunEpoch, verified: Verify) -> Pass:
    """Run epoch 0, timed and verified at once."""
    kept = batches_holding(bench.job, bench.limits.verified_elements // bench.job.world)
    begin_s = bench.cpu_s()
    first = run(0, kept, bench.limits.max_seconds)
    outcome.pause_begins(bench.cpu_s())
    outcome.first_epoch_cpu_s = outcome.cpu_s_at_pause - begin_s
    outcome.add(first, epoch=0, measured=False)
    verified(0, first)
    return first


def measured_epochs(bench: Bench, run: RunEpoch, *, after_pause: bool = True) -> list[Pass]:
    """Run epochs 1, 2 … until time and batches suffice, or an epoch was stopped or had no batch.

    Args:
        bench: set up for the round.
        run: runs one epoch.
        after_pause: whether a library had time to work ahead. If epochs have no stream, an
            unmeasured epoch then comes first: see `first_measured`.
    """
    passes: list[Pass] = []
    if after_pause and not bench.has_stream:
        passes.append(run(1, KEPT_PER_EPOCH, bench.limits.max_seconds))
    spent = Spent()
    while goes_on(bench, spent) and all(done.complete and done.indices for done in passes[-1:]):
        left_s = max(0.0, bench.limits.max_seconds - spent.seconds)
        passes.append(run(len(passes) + 1, kept_batches(bench, passes), left_s))
        spent.add(passes[-1])
    return passes


def first_measured(bench: Bench, passes: Sequence[Pass]) -> int:
    """Return the number of the first measured epoch after a pause.

    If epochs have no stream, the epoch after the pause is excluded, because its batches were made
    during the verification of the warm-up. The library works ahead equally at the end of that
    epoch and of the last.
    """
    return 1 if bench.has_stream or len(passes) == 1 else 2


@dataclasses.dataclass
class Spent:
    """Totals of the measured epochs: their number, time and batches."""

    epochs: int = 0
    seconds: float = 0.0
    batches: int = 0

    def add(self, done: Pass) -> None:
        """Add an epoch."""
        self.epochs += 1
        self.seconds += done.wall_ns / 1e9
        self.batches += len(done.indices)


def goes_on(bench: Bench, spent: Spent) -> bool:
    """Whether a round needs another epoch."""
    limits = bench.limits
    if not spent.epochs:
        return True
    needs = spent.seconds < limits.min_seconds or spent.batches < limits.min_batches
    if bench.has_stream:
        return needs
    if spent.seconds < limits.max_seconds:
        return needs or spent.epochs < FEWEST_EPOCHS
    return spent.batches < limits.least_batches and spent.seconds < limits.max_seconds + GRACE_S


def enough_for(bench: Bench) -> Enough | None:
    """Return the sufficient part of a bench's warm-up epoch; None if all of it is needed."""
    job, limits = bench.job, bench.limits
    if bench.whole_warm_up or job.scenario.mixture is not None:
        return None
    least_s = limits.min_seconds if limits.warm_up_seconds is None else limits.warm_up_seconds
    return Enough(
        batches=max(bench.lead, batches_holding(job, limits.verified_elements)),
        of_batches=batches_holding(job, job.scenario.epoch_elements),
        stream_ns=int(least_s * 1e9),
        is_always=limits.warm_up_seconds is not None,
    )


def fewest_batches(bench: Bench) -> int:
    """Return the least batches of a measured epoch before a stop; 0 for no minimum."""
    job, least = bench.job, bench.limits.least_batches
    if not least:
        return 0
    whole = batches_holding(job, job.scenario.epoch_elements)
    return bench.lead + least if bench.has_stream else whole


def batches_holding(job: LoadingJob, elements: int) -> int:
    """Return the number of batches that hold a number of elements, at least one."""
    return max(1, -(-elements // job.batch_size))


def kept_batches(bench: Bench, passes: Sequence[Pass]) -> int:
    """Return the number of batches to keep of the next measured epoch.

    If the effort verifies every element, it is all batches, up to the memory for them. It is the
    usual number before any verification, as in a measurement of memory.
    """
    if not bench.has_stream:
        return 0 if secrets.randbelow(KEPT_IN) else KEPT_PER_EPOCH
    size = bench.batch_bytes
    if bench.limits.verified_elements < EVERY_ELEMENT or not size:
        return KEPT_PER_EPOCH
    used = size * sum(len(done.kept) for done in passes)
    return max(KEPT_PER_EPOCH, (KEPT_BYTES - used) // size)


def check_seed(bench: Bench, first: Pass) -> None:
    """Require that another seed gives another order: reopen the loader for a few batches."""
    other = bench.job.with_seed(bench.job.seed + 1)
    here, there = beginnings(bench, first, other)
    if len(here) >= ENOUGH and np.array_equal(here, there):
        bench.oracle.refuse(
            "ignored-seed",
            f"the order does not depend on the seed: seeds {bench.job.seed} and {other.seed} gave "
            "the same order",
        )


def check_elsewhere(bench: Bench, first: Pass) -> None:
    """Require the same order in a fresh process, with another random state of Python."""
    order = PassOrder(0, 0, FOREVER_NS, most=batches_holding(bench.job, ENOUGH))
    other_hash = "0" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    with FreshLoader(bench.reference, {"PYTHONHASHSEED": other_hash}) as fresh:
        fresh.answer()
        fresh.open(bench.job, Consumption())
        fresh.answer()
        fresh.run(order)
        there: RemotePass = fresh.answer()
    streams = stream_of(first.indices), stream_of(there.done.indices)
    bench.oracle.check(SameOrder(*streams, "in a fresh process"))


def check_again(bench: Bench, first: Pass) -> None:
    """Require that the same seed gives the same order: reopen the loader for a few batches."""
    if not np.array_equal(*beginnings(bench, first, bench.job)):
        bench.oracle.refuse(
            "not-reproducible",
            f"same seed gave another order: opened again with seed {bench.job.seed}",
        )


def beginnings(bench: Bench, first: Pass, job: LoadingJob) -> tuple[Array, Array]:
    """Return the first `ENOUGH` elements of epoch 0, and of a job that is opened to compare."""
    count = batches_holding(job, ENOUGH)
    with dataclasses.replace(bench, job=job).opened() as (loader, _):
        indices = [np.array(on_host(batch["index"])) for batch in islice(loader.epoch(0), count)]
    return stream_of(first.indices[:count]), stream_of(indices)


def own_copy(batch: Batch) -> HostBatch:
    """Copy a batch to NumPy arrays, because the library may reuse its buffers."""
    return {name: np.array(on_host(value)) for name, value in batch.items()}


def noted_copy(loader: Loader, devices: set[str], batch: Batch) -> HostBatch:
    """Copy a batch, and note its devices; outside the clock."""
    found = devices_of(batch)
    made = loader.worked_on
    devices |= found if made is None else {f"{made}, then {place}" for place in found}
    return own_copy(batch)


def verify(bench: Bench, epoch: int, done: Pass) -> None:
    """Check the indices of an epoch and the content of its kept batches."""
    job, oracle = bench.job, bench.oracle
    oracle.check(
        Elements(
            epoch,
            done.indices,
            complete=done.complete,
            drop_last=job.drop_last,
            batch_size=job.batch_size,
        )
    )
    if job.shuffle:
        oracle.check(Order(epoch, done.indices))
    oracle.check(*kept_content(epoch, done.indices, done.kept))
    bench.note_sizes(done.kept.values())
