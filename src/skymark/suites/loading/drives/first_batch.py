"""Drive a loader from before it is opened, to measure the cost of the first batch."""

from __future__ import annotations

import os

from skymark.measure.process_tree import own_bytes_of_tree
from skymark.suites.loading.drives import epochs
from skymark.suites.loading.drives.outcome import Bench, Outcome
from skymark.suites.loading.oracle import CpuTime
from skymark.suites.loading.oracle.cost import HeldInMemory


def drive(bench: Bench) -> Outcome:
    """Measure and verify one round, with opening the loader inside the sampled region.

    A loader may load everything on opening or at the request of its first batch, so
    ``open_to_first_batch_s`` spans both. Nothing is verified before the sampling ends, because the
    reference would need memory of its own.
    """
    held: list[int] = []

    def note() -> None:
        held.append(own_bytes_of_tree(os.getpid(), bench.excluded_pids))

    note()
    bench.begin()
    with bench.opened() as (loader, setup_s):
        outcome = bench.outcome(setup_s)
        run = epochs.run_with(bench, loader, note=epochs.WarmUpNote({0: note}, lambda _: None))
        warm_up = run(0, epochs.KEPT_PER_EPOCH, bench.limits.max_seconds)
        passes = [warm_up, *epochs.measured_epochs(bench, run, after_pause=False)]
        outcome.resources = bench.region.ends()
    for epoch, done in enumerate(passes):
        outcome.add(done, epoch=epoch, measured=epoch > 0)
        epochs.verify(bench, epoch, done)
    if outcome.first_batch_ns is not None:
        outcome.extra["open_to_first_batch_s"] = setup_s + outcome.first_batch_ns / 1e9
    if bench.job.format == "memory" and len(held) > 1:
        bench.oracle.check(HeldInMemory(held[1] - held[0]))
    bench.oracle.check(CpuTime(outcome.resources.cpu_s, sum(outcome.batch_elements)))
    return outcome
