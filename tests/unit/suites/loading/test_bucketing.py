"""Batches from a stream of elements: plain, by length, and sent to another process."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skymark.suites.loading.adapter import LoadingJob
from skymark.suites.loading.dataset.canonical import write_dataset
from skymark.suites.loading.element_streams import Batches, batches_of
from skymark.suites.loading.scenario import Scenario
from skymark.suites.loading.scenarios.nlp_texts import TextSequences
from skymark.suites.loading.scenarios.tab_tables import DenseFeatures
from skymark.suites.loading.work import Size

LENGTHS = (5, 40, 7, 300, 41, 6, 33)


class Numbers:
    """Seven elements, made anew whenever they are iterated."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for index, length in enumerate(LENGTHS):
            yield {"index": index, "tokens": np.zeros(length, np.int32)}


@pytest.fixture
def job(tmp_path: Path, request: pytest.FixtureRequest) -> LoadingJob:
    cls: type[Scenario] = request.param
    size = Size(elements=len(LENGTHS), batch_size=2, values={"features": 2, "longest": 512})
    dataset = write_dataset(tmp_path / "data", "numbers", {"label": np.arange(len(LENGTHS))})
    return LoadingJob(cls(size=size), dataset, tmp_path, "canonical", batch_size=2)


def indices(batches: Iterator[Any]) -> list[list[int]]:
    return [batch["index"].tolist() for batch in batches]


@pytest.mark.parametrize("job", [TextSequences], indirect=True)
def test_a_batch_holds_elements_of_one_length_bucket(job: LoadingJob) -> None:
    assert indices(batches_of(Numbers(), job)) == [[0, 2], [1, 4], [5], [6], [3]]


@pytest.mark.parametrize("job", [DenseFeatures], indirect=True)
def test_without_buckets_batches_come_in_order_and_the_last_is_short(job: LoadingJob) -> None:
    elements = [{"index": index} for index in range(7)]
    assert indices(batches_of(elements, job)) == [[0, 1], [2, 3], [4, 5], [6]]


@pytest.mark.parametrize("job", [TextSequences], indirect=True)
def test_batches_can_be_sent_to_a_worker_and_iterated_twice(job: LoadingJob) -> None:
    there = pickle.loads(pickle.dumps(Batches(Numbers(), job)))
    assert indices(iter(there)) == indices(iter(there)) == indices(batches_of(Numbers(), job))
