"""A loader that delivers nothing is refused by every drive, and breaks none of them."""

from __future__ import annotations

from importlib import import_module

import pytest

from skymark.suites.loading.scenarios.dist_ranks_and_mesh import Ranks
from skymark.suites.loading.scenarios.io_storage import FirstBatch
from skymark.suites.loading.scenarios.pr_production import Determinism, Resuming
from skymark.suites.loading.scenarios.tab_tables import DenseFeatures
from skymark.suites.loading.work import Size

SIZE = Size(elements=203, batch_size=16, values={"features": 6, "object_bytes": 10})


@pytest.mark.parametrize(
    "scenario",
    [
        DenseFeatures(SIZE),
        Determinism(SIZE),
        Resuming(SIZE),
        FirstBatch(SIZE, axes={"mode": "eager"}),
        Ranks(SIZE, axes={"ranks": 2}),
    ],
    ids=lambda scenario: scenario.drive,
)
def test_no_batch_at_all_is_named(make_bench, scenario):
    drive = import_module(f"skymark.suites.loading.drives.{scenario.drive}").drive
    bench = make_bench(scenario, "DeliversNothing")
    outcome = drive(bench)
    assert outcome.first_batch_ns is None
    assert bench.oracle.verdict().cause.kind == "no-batches"
