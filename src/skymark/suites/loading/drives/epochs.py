"""Drive a loader for whole epochs: one to warm up, then as many as the effort allows."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from skymark.measure.loop import Pass, timed_pass
from skymark.suites.loading.devices import devices_of
from skymark.suites.loading.drives.outcome import Bench, Outcome, awaiting

if TYPE_CHECKING:
    from skymark.suites.loading.adapter import Loader, LoadingJob
    from skymark.suites.loading.oracle import HostBatch
    from skymark.suites.loading.scenario import Batch

KEPT_PER_EPOCH = 2
"""Whole batches kept in each measured epoch, at random places, to verify what was timed."""

RunEpoch = Callable[[int, frozenset[int], float], Pass]
"""Runs one timed epoch, given its number, the numbers of the batches to keep, and its most seconds.
"""


def drive(bench: Bench) -> Outcome:
    """Measure and verify one round of a cell."""
    with bench.opened() as (loader, setup_s):
        outcome = Outcome(setup_s=setup_s, lead=bench.lead)
        measure(bench, outcome, run_with(bench, loader))
    outcome.verification = bench.oracle.verdict()
    return outcome


def run_with(bench: Bench, loader: Loader) -> RunEpoch:
    """Return a function that runs one timed epoch of a loader in this process."""

    def run(epoch: int, kept: frozenset[int], seconds: float) -> Pass:
        return timed_pass(
            lambda: loader.epoch(epoch),
            ready=awaiting(loader),
            keep=kept,
            stop_after_ns=int(seconds * 1e9),
            think_ns=bench.think_ns,
            copy=partial(noted_copy, loader, bench.devices),
        )

    return run


def measure(bench: Bench, outcome: Outcome, run: RunEpoch) -> list[Pass]:
    """Run and verify a warm-up epoch and the measured ones; return them by epoch number.

    The warm-up epoch is timed too (its first wait is the time to first batch) and its content is
    verified at once, up to the effort's number of elements; the measured epochs follow.
    """
    kept = first_batches(bench.job, bench.limits.verified_elements)
    warm_up = run(0, kept, bench.limits.max_seconds)
    outcome.add(warm_up, epoch=0, measured=False)
    verify(bench, 0, warm_up)
    bench.begin()
    passes = measured_epochs(bench, run)
    outcome.resources = bench.timed_region_ends()
    for epoch, done in enumerate(passes, 1):
        outcome.add(done, epoch=epoch, measured=True)
        verify(bench, epoch, done)
    return [warm_up, *passes]


def measured_epochs(bench: Bench, run: RunEpoch) -> list[Pass]:
    """Run epochs 1, 2 … until both time and batches suffice, or one was stopped or had no batch."""
    limits = bench.limits
    passes: list[Pass] = []
    seconds, batches = 0.0, 0
    while not passes or seconds < limits.min_seconds or batches < limits.min_batches:
        epoch = len(passes) + 1
        done = run(epoch, random_batches(bench, epoch), limits.max_seconds - seconds)
        passes.append(done)
        seconds += done.wall_ns / 1e9
        batches += len(done.indices)
        if not (done.complete and done.indices):
            break
    return passes


def first_batches(job: LoadingJob, elements: int) -> frozenset[int]:
    """Return the numbers of the first batches that together hold so many elements."""
    return frozenset(range(max(1, -(-elements // job.batch_size))))


def random_batches(bench: Bench, epoch: int) -> frozenset[int]:
    """Return the numbers of a few batches of an epoch of one rank."""
    job = bench.job
    total = max(1, -(-len(job.dataset) // job.batch_size // job.world))
    places = random.Random(f"{job.seed}/{epoch}/{bench.round}")
    return frozenset(places.sample(range(total), min(KEPT_PER_EPOCH, total)))


def own_copy(batch: Batch) -> HostBatch:
    """Copy a batch to NumPy arrays: the library may reuse its buffers for the next one."""
    return {name: np.array(value) for name, value in batch.items()}


def noted_copy(loader: Loader, devices: set[str], batch: Batch) -> HostBatch:
    """Copy a batch, and note where it lay; outside the clock."""
    found = devices_of(batch)
    made = loader.worked_on
    devices |= found if made is None else {f"{made}, then {place}" for place in found}
    return own_copy(batch)


def verify(bench: Bench, epoch: int, done: Pass) -> None:
    """Check the indices of an epoch and the content of the batches kept of it."""
    job, oracle = bench.job, bench.oracle
    oracle.check_indices(
        epoch,
        done.indices,
        complete=done.complete,
        drop_last=job.drop_last,
        batch_size=job.batch_size,
    )
    if job.shuffle:
        oracle.check_shuffled(epoch, done.indices)
    for batch in done.kept.values():
        oracle.check_batch(epoch, batch)
