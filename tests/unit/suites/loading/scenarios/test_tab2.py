"""TAB-2 does what it says, and the oracle knows its mistakes."""

from __future__ import annotations

import numpy as np
import pytest

from skymark.suites.loading.dataset.tabular import CARDINALITIES, CLICK_RATE
from skymark.suites.loading.oracle import Content, Oracle
from skymark.suites.loading.scenarios.tab_tables import SparseFeatures
from skymark.suites.loading.work import Size

SIZE = Size(elements=3000, batch_size=64, values={"largest_table": 5000})


@pytest.fixture(scope="module")
def scenario():
    return SparseFeatures(size=SIZE, seed=3)


@pytest.fixture(scope="module")
def dataset(scenario, tmp_path_factory):
    return scenario.generate(tmp_path_factory.mktemp("clicks") / "data")


def test_the_generated_rows_look_like_click_logs(dataset):
    assert dataset.column("dense").shape == (3000, 13)
    assert dataset.column("categorical").shape == (3000, 26)
    assert abs(dataset.column("label").mean() - CLICK_RATE) < 0.03
    for column in ("dense", "categorical"):
        assert abs((dataset.column(column) == -1).mean() - 0.1) < 0.01
    distinct = [len(np.unique(dataset.column("categorical")[:, k])) for k in range(26)]
    assert distinct[8] <= CARDINALITIES[8] + 1
    assert distinct[2] > 1000


def test_an_element_has_the_fields_of_dlrm(scenario, dataset):
    element = scenario.transform(dataset[5], 0)
    assert (element["dense"].dtype, element["dense"].shape) == (np.float32, (13,))
    assert (element["categorical"].dtype, element["categorical"].shape) == (np.int32, (26,))
    assert np.all(element["categorical"] < np.minimum(CARDINALITIES, 5000))


def test_the_reference_passes(scenario, dataset):
    oracle = Oracle(scenario, dataset)
    oracle.check(Content(0, oracle.reference.batch(0, np.arange(64))))
    assert oracle.verdict().passed


@pytest.mark.parametrize(
    ("place", "mistake"),
    [
        (place, mistake)
        for place, stage in enumerate(SparseFeatures(size=SIZE).stages())
        for mistake in stage.mistakes
    ],
)
def test_a_known_mistake_is_named(scenario, dataset, place, mistake):
    oracle = Oracle(scenario, dataset)
    stages = list(scenario.stages())
    stages[place] = stages[place]._replace(apply=stages[place].mistakes[mistake])
    oracle.check(Content(0, oracle.reference.batch(0, np.arange(64), stages=stages)))
    assert oracle.cause is not None
    assert oracle.cause.kind == "wrong-stage"
    assert mistake in oracle.cause.message


def test_a_skipped_logarithm_is_named(scenario, dataset):
    oracle = Oracle(scenario, dataset)
    batch = oracle.reference.batch(0, np.arange(64), stages=scenario.stages()[1:])
    oracle.check(Content(0, {**batch, "dense": batch["dense"].astype(np.float32)}))
    assert oracle.cause is not None
    assert oracle.cause.kind == "skipped-stage"
    assert "'log'" in oracle.cause.message
