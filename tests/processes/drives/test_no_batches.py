"""A loader that delivers nothing is refused by every drive, and breaks none of them."""

from __future__ import annotations

from importlib import import_module

import pytest

from skymark.suites.loading.scenario import Size
from skymark.suites.loading.scenarios.dist1_ranks import Ranks
from skymark.suites.loading.scenarios.io2_streaming_or_eager import FirstBatch
from skymark.suites.loading.scenarios.pr1_checkpoint_and_resume import Resuming
from skymark.suites.loading.scenarios.pr2_determinism import Determinism
from skymark.suites.loading.scenarios.tab1_dense_features import DenseFeatures

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
