"""Drive a loader as usual, then reopen it to prove that the seed decides the mixture's order."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from skymark.suites.loading.devices import on_host
from skymark.suites.loading.drives import epochs
from skymark.suites.loading.drives.outcome import Bench, Outcome
from skymark.suites.loading.oracle import stream_of
from skymark.suites.loading.oracle.order import ENOUGH

if TYPE_CHECKING:
    from skymark.measure.loop import Pass


def drive(bench: Bench) -> Outcome:
    """Measure and verify one round, and in the first one the order's dependence on the seed."""
    with bench.opened() as (loader, setup_s):
        outcome = bench.outcome(setup_s)
        first, *_ = epochs.measure(bench, outcome, epochs.run_with(bench, loader))
    if bench.round == 0:
        epochs.check_seed(bench, first)
        check_again(bench, first)
    return outcome


def check_again(bench: Bench, first: Pass) -> None:
    """Require that the same seed gives the same order: reopen the loader for a few batches."""
    count = epochs.batches_holding(bench.job, ENOUGH)
    with bench.opened() as (loader, _):
        again = [np.array(on_host(batch["index"])) for batch in islice(loader.epoch(0), count)]
    if not np.array_equal(stream_of(first.indices[:count]), stream_of(again)):
        bench.oracle.refuse(
            "not-reproducible",
            f"same seed gave another order: opened again with seed {bench.job.seed}",
        )
