"""Parquet files read at random, by one thread or by several."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from skymark.suites.loading.dataset.canonical import write_dataset
from skymark.suites.loading.dataset.parquet import ParquetReader, write_parquet

pytest.importorskip("pyarrow")

ELEMENTS = 300


@pytest.fixture
def reader(tmp_path):
    values = np.arange(ELEMENTS, dtype=np.int64)
    dataset = write_dataset(tmp_path / "canonical", "numbers", {"value": values * 7})
    directory = tmp_path / "parquet"
    directory.mkdir()
    write_parquet(dataset, directory)
    return ParquetReader(directory, dataset)


def test_threads_that_read_different_row_groups_get_the_rows_they_asked_for(reader):
    order = np.random.default_rng(0).permutation(np.tile(np.arange(ELEMENTS), 4)).tolist()
    with ThreadPoolExecutor(4) as threads:
        elements = list(threads.map(reader.__getitem__, order))
    assert [element["index"] for element in elements] == order
    assert [int(element["value"]) for element in elements] == [7 * index for index in order]


def test_a_reader_that_was_used_can_be_sent_to_another_process(reader):
    assert int(reader[5]["value"]) == 35
    assert int(pickle.loads(pickle.dumps(reader))[299]["value"]) == 2093
