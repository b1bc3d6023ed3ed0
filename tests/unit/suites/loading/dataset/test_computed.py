"""Elements that are computed: the same every time, others for another index, uniform."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from skymark.suites.loading.dataset.tabular import ComputedDataset, write_computed

BILLION = 1_000_000_000


@pytest.fixture
def dataset(tmp_path):
    return write_computed(tmp_path, "rows", BILLION, {"first": 3, "second": 2})


def test_a_billion_elements_take_no_room(dataset, tmp_path):
    assert len(dataset) == BILLION
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1000


def test_an_element_is_the_same_alone_and_among_others(dataset):
    indices = np.array([0, 5, BILLION - 1, 5])
    rows = dataset.rows(indices)
    assert {name: values.shape for name, values in rows.items()} == {
        "first": (4, 3),
        "second": (4, 2),
    }
    for place, index in enumerate(indices.tolist()):
        element = dataset[index]
        assert element["index"] == index
        for name, values in rows.items():
            assert element[name].dtype == np.float32
            assert np.array_equal(element[name], values[place])


def test_values_are_uniform_and_differ_by_index_column_and_place(dataset):
    rows = dataset.rows(np.arange(100_000))
    values = np.concatenate([rows["first"], rows["second"]], axis=1)
    assert (values.min(), values.max()) == (pytest.approx(0, abs=1e-4), pytest.approx(1, abs=1e-4))
    assert values.max() < 1
    assert np.allclose(values.mean(axis=0), 0.5, atol=0.005)
    assert np.allclose(np.corrcoef(values.T), np.eye(5), atol=0.02)
    assert abs(np.corrcoef(values[1:, 0], values[:-1, 0])[0, 1]) < 0.02


def test_it_is_sent_to_a_process_as_its_place(dataset):
    sent = pickle.dumps(dataset)
    assert len(sent) < 500
    again = pickle.loads(sent)
    assert isinstance(again, ComputedDataset)
    assert np.array_equal(again[7]["first"], dataset[7]["first"])
