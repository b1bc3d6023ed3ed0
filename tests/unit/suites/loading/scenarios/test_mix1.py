"""MIX-1: sources that are whole shards, and weights that make each kind of source."""

from __future__ import annotations

import re

import pytest

from skymark.model.plan import Selection
from skymark.model.record import Status
from skymark.suites.loading.dataset.tar import SHARD_ELEMENTS
from skymark.suites.loading.scenarios.mix1_weighted_mixing import WeightedMixing
from skymark.suites.loading.scenarios.pr_production import Determinism
from skymark.suites.loading.suite import LoadingSuite
from skymark.suites.loading.tuning import EFFORTS


@pytest.mark.parametrize(("variant", "workers"), [("tiny", 2), ("small", 8), ("medium", 8)])
def test_sources_are_whole_shards_that_workers_can_share(variant, workers):
    size = WeightedMixing.sizes()[variant]
    mixture = WeightedMixing(size).mixture
    assert sum(mixture.sizes) == size.elements
    assert all(one % (workers * SHARD_ELEMENTS) == 0 for one in mixture.sizes)


def test_a_source_comes_in_part_one_once_and_one_several_times():
    mixture = WeightedMixing(WeightedMixing.variants["small"]).mixture
    assert sum(mixture.weights) == pytest.approx(1)
    passes = [
        mixture.elements * weight / size
        for size, weight in zip(mixture.sizes, mixture.weights, strict=True)
    ]
    assert passes == pytest.approx([1 / 3, 1, 5])


def test_an_epoch_of_other_scenarios_is_the_data_set():
    size = Determinism.variants["small"]
    assert Determinism(size).mixture is None
    assert Determinism(size).epoch_elements == size.elements


@pytest.mark.parametrize("batch_size", [256, 250])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_shares_of_workers_that_take_batches_in_turn_are_an_epoch(batch_size, workers):
    mixture = WeightedMixing(WeightedMixing.sizes()["tiny"]).mixture
    shares = [mixture.share(worker, workers, batch_size) for worker in range(workers)]
    assert sum(shares) == mixture.elements
    assert max(shares) - min(shares) <= batch_size


@pytest.mark.parametrize(("workers", "refused"), [(0, False), (1, False), (2, False), (3, True)])
def test_workers_that_cannot_share_the_shards_of_a_source_are_refused_in_the_plan(workers, refused):
    selection = Selection(
        scenarios=("MIX-1:tiny",), adapters=("webdataset",), settings={"workers": workers}
    )
    (planned,) = LoadingSuite().plan(selection, EFFORTS["check"])
    assert (planned.refusal is not None) is refused
    if planned.refusal is not None:
        status, cause = planned.refusal
        assert (status, cause.kind) == (Status.UNSUPPORTED, "uneven-shares")
        assert re.search(r"\b2 shards\b.*source 2\b", cause.message)
        assert "--workers" in cause.action
