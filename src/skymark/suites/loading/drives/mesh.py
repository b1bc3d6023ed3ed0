"""Drive a loader with batches for a mesh of JAX devices, in a process with such a mesh."""

from __future__ import annotations

import dataclasses

from skymark.measure.loop import Pass
from skymark.suites.loading.delivery.on_jax import mesh_variables
from skymark.suites.loading.drives import epochs
from skymark.suites.loading.drives.fresh import FreshLoader, PassOrder
from skymark.suites.loading.drives.outcome import Bench, Outcome


def drive(bench: Bench) -> Outcome:
    """Measure and verify one round; a wait ends when the batch is on its devices.

    Every batch must divide among the devices, so the job drops its last, short one. A fresh
    process is needed because the number of devices is settled when JAX starts.
    """
    bench = dataclasses.replace(bench, job=dataclasses.replace(bench.job, drop_last=True))
    with FreshLoader(bench.reference, mesh_variables()) as fresh:
        outcome = bench.outcome()
        outcome.extra["fresh_import_s"] = fresh.answer()
        fresh.open(bench.job, bench.consumption, mesh=True)
        outcome.setup_s = fresh.answer()

        def run(epoch: int, kept: int, seconds: float) -> Pass:
            fresh.run(PassOrder(epoch, kept, int(seconds * 1e9)))
            remote = fresh.answer()
            bench.oracle.check_arrivals(epoch, remote.arrival_fault)
            if remote.fault:
                bench.oracle.refuse("sharding", f"epoch {epoch}: {remote.fault}")
            outcome.extra["devices"] = remote.devices
            bench.note_places(remote.places)
            done: Pass = remote.done
            return done

        epochs.measure(bench, outcome, run)
    return outcome
