"""The oracle names skipped batch-level work, whichever field shows it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from skymark.model.record import Cause
from skymark.suites.loading.dataset.canonical import Dataset
from skymark.suites.loading.oracle import Content, Declared, HostBatch, Oracle, to_host
from skymark.suites.loading.scenarios.cv_images import BatchMixing
from skymark.suites.loading.work import Size

INDICES = np.array([5, 0, 11, 7, 2, 9, 4, 3])
EPOCH = 2


@pytest.fixture(scope="module")
def scenario() -> BatchMixing:
    values = {"height": 72, "width": 88, "side": 32, "classes": 10}
    return BatchMixing(size=Size(elements=13, batch_size=8, values=values), seed=5)


@pytest.fixture(scope="module")
def dataset(scenario: BatchMixing, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return scenario.generate(tmp_path_factory.mktemp("data") / "set")


@pytest.fixture
def mixed(scenario: BatchMixing, dataset: Dataset) -> HostBatch:
    return Oracle(scenario, dataset).reference.batch(EPOCH, INDICES)


@pytest.fixture
def unmixed(scenario: BatchMixing, dataset: Dataset) -> HostBatch:
    elements = [scenario.transform(dataset[index], EPOCH) for index in INDICES.tolist()]
    return to_host(scenario.collate(elements))


def cause_of(oracle: Oracle, batch: HostBatch) -> Cause:
    oracle.check(Content(EPOCH, batch))
    assert oracle.cause is not None
    return oracle.cause


@pytest.mark.parametrize("native", [False, True])
def test_a_batch_that_was_not_mixed_is_named_by_its_labels(
    scenario: BatchMixing, dataset: Dataset, unmixed: HostBatch, native: bool
) -> None:
    cause = cause_of(Oracle(scenario, dataset, Declared(native=native)), unmixed)
    assert cause.kind == "skipped-stage"
    assert "(mix) was skipped" in cause.message
    assert re.search("'label' .*int64.* float32", cause.message)


@pytest.mark.parametrize("native", [False, True])
def test_images_that_were_not_mixed_are_named_though_the_labels_were(
    scenario: BatchMixing, dataset: Dataset, mixed: HostBatch, unmixed: HostBatch, native: bool
) -> None:
    noise = np.random.default_rng(0).normal(0, 0.02, mixed["image"].shape)
    image = (unmixed["image"] + native * noise).astype(np.float32)
    cause = cause_of(Oracle(scenario, dataset, Declared(native=native)), {**mixed, "image": image})
    assert cause.kind == "skipped-stage"
    assert "(mix) was skipped" in cause.message
    assert "field 'image' differs" in cause.message


def test_another_dtype_that_mixing_does_not_explain_stays_one(
    scenario: BatchMixing, dataset: Dataset, mixed: HostBatch
) -> None:
    wrong = {**mixed, "label": mixed["label"].argmax(axis=1)[::-1]}
    assert cause_of(Oracle(scenario, dataset), wrong).kind == "dtype"


def test_mixed_images_of_other_elements_are_named(
    scenario: BatchMixing, dataset: Dataset, mixed: HostBatch
) -> None:
    rolled = {**mixed, "image": np.roll(mixed["image"], 3, axis=0)}
    assert cause_of(Oracle(scenario, dataset), rolled).kind == "misplaced"
