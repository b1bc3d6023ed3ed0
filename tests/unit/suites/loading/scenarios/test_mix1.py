"""MIX-1: sources that are whole shards, and weights that make each kind of source."""

from __future__ import annotations

import pytest

from skymark.suites.loading.dataset.tar import SHARD_ELEMENTS
from skymark.suites.loading.scenarios.mix1_weighted_mixing import WeightedMixing
from skymark.suites.loading.scenarios.pr2_determinism import Determinism


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
