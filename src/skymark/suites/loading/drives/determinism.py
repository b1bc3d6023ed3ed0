"""Drive a loader as usual, then reopen it to prove that its stream depends on the seed alone."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from skymark.suites.loading.drives import epochs
from skymark.suites.loading.drives.outcome import Bench, Outcome
from skymark.suites.loading.oracle import stream_of
from skymark.suites.loading.step.consumption import Consumption

if TYPE_CHECKING:
    from skymark.suites.loading.adapter import LoadingJob
    from skymark.suites.loading.dataset.canonical import Array


def drive(bench: Bench) -> Outcome:
    """Measure and verify whole epochs, then reopen the loader untimed and compare streams.

    Equal streams with another worker count prove that a seed gives one stream and that the worker
    count does not change it. If they differ, the same job is opened again to find the cause.
    """
    outcome, (first, second, *_) = epochs.measured(bench)
    streams = [stream_of(first.indices), stream_of(second.indices)]
    check_workers(bench, streams)
    check_other_seed(bench, streams[0])
    return outcome


def check_workers(bench: Bench, streams: list[Array]) -> None:
    """Require the streams of epochs 0 and 1 again with the same seed and other workers."""
    job = bench.job
    workers = 0 if job.workers >= 2 else 2
    other = _streams(bench, dataclasses.replace(job, workers=workers), 2)
    if (place := _difference(streams, other)) is None:
        return
    if (again := _difference(streams, _streams(bench, job, 2))) is not None:
        bench.oracle.refuse(
            "not-reproducible",
            f"same seed gave another stream: opened again with seed {job.seed}, {again}",
        )
    else:
        bench.oracle.refuse(
            "worker-dependent",
            f"order depends on worker count: with {workers} workers instead of {job.workers} "
            f"and the same seed {job.seed}, {place}",
        )


def check_other_seed(bench: Bench, stream: Array) -> None:
    """Require another stream, with the right content, from another seed."""
    job, seed = bench.job, bench.job.seed + 1
    [other] = _streams(bench, job.with_seed(seed), 1)
    if _difference([stream], [other]) is None:
        bench.oracle.refuse(
            "ignored-seed",
            f"ignored seed: another seed gave the same stream (seeds {job.seed} and {seed})",
        )


def _streams(bench: Bench, job: LoadingJob, count: int) -> list[Array]:
    """Open a loader anew, run and verify its first epochs untimed, and return their streams."""
    oracle = bench.oracle.fresh(
        seed=job.seed,
        allowed_short_batches=job.workers * bench.adapter.short_batch_per_worker,
    )
    again = dataclasses.replace(bench, job=job, oracle=oracle, consumption=Consumption())
    with again.opened() as (loader, _):
        run = epochs.run_with(again, loader)
        passes = [
            run(epoch, epochs.KEPT_PER_EPOCH, bench.limits.max_seconds) for epoch in range(count)
        ]
    for epoch, done in enumerate(passes):
        epochs.verify(again, epoch, done)
    bench.oracle.absorb(oracle, f"opened again with seed {job.seed} and {job.workers} workers")
    return [stream_of(done.indices) for done in passes]


def _difference(streams: list[Array], others: list[Array]) -> str | None:
    """Describe the first difference of two lists of streams up to the shorter; None if equal."""
    for epoch, (stream, other) in enumerate(zip(streams, others, strict=True)):
        common = min(len(stream), len(other))
        different = np.flatnonzero(stream[:common] != other[:common])
        if different.size:
            place = int(different[0])
            return (
                f"epoch {epoch} has element {other[place]} at place {place}, "
                f"where it was {stream[place]}"
            )
    return None
