"""A loader that delivers nothing is refused by every drive, and breaks none of them."""

from __future__ import annotations

from importlib import import_module

import pytest

from skymark.loading.scenario import Size
from skymark.loading.scenarios.dist1 import Ranks
from skymark.loading.scenarios.io2 import FirstBatch
from skymark.loading.scenarios.pr1 import Resuming
from skymark.loading.scenarios.pr2 import Determinism
from skymark.loading.scenarios.tab1 import DenseFeatures

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
    drive = import_module(f"skymark.loading.drives.{scenario.drive}").drive
    outcome = drive(make_bench(scenario, "DeliversNothing"))
    assert outcome.first_batch_ns is None
    assert outcome.verification.cause.kind == "no-batches"
