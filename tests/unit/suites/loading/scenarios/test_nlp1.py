"""NLP-1 does what it says, and the oracle knows its mistakes."""

from __future__ import annotations

import numpy as np
import pytest

from skymark.suites.loading.oracle import Content, Oracle
from skymark.suites.loading.scenarios.nlp_texts import TokenBlocks
from skymark.suites.loading.work import Size

SIZE = Size(elements=40, batch_size=16, values={"block": 64})


@pytest.fixture
def scenario():
    return TokenBlocks(size=SIZE, seed=3)


@pytest.fixture
def oracle(scenario, tmp_path):
    return Oracle(scenario, scenario.generate(tmp_path / "data"))


def test_every_variant_ends_with_a_short_batch():
    for size in TokenBlocks.variants.values():
        assert size.elements % size.batch_size


def test_an_element_is_inputs_and_targets_of_fixed_length(scenario, oracle):
    element = scenario.transform(oracle.dataset[0], 0)
    for name in ("inputs", "targets", "segment_ids", "positions"):
        assert element[name].shape == (64,)
        assert element[name].dtype == np.int32
    assert element["loss_mask"].shape == (64,)
    assert np.array_equal(element["inputs"][1:], element["targets"][:-1])


def test_the_reference_passes(oracle):
    oracle.check(Content(0, oracle.reference.batch(0, np.arange(16))))
    assert oracle.verdict().passed


@pytest.mark.parametrize(
    ("place", "mistake"),
    [
        (place, mistake)
        for place, stage in enumerate(TokenBlocks(size=SIZE).stages())
        for mistake in stage.mistakes
    ],
)
def test_a_known_mistake_is_named(scenario, oracle, place, mistake):
    stages = list(scenario.stages())
    stages[place] = stages[place]._replace(apply=stages[place].mistakes[mistake])
    oracle.check(Content(0, oracle.reference.batch(0, np.arange(16), stages=stages)))
    assert oracle.cause is not None
    assert oracle.cause.kind == "wrong-stage"
    assert mistake in oracle.cause.message
