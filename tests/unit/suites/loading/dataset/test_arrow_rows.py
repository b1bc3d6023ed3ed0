"""Elements as rows of an Arrow table, and back."""

from __future__ import annotations

import numpy as np
import pytest

from skymark.suites.loading.dataset.canonical import write_dataset
from skymark.suites.loading.dataset.parquet import arrow_table, rows_of_table

pa = pytest.importorskip("pyarrow")

ELEMENTS = 7


@pytest.fixture
def dataset(tmp_path):
    random = np.random.default_rng(0)
    columns = {
        "image": [random.integers(0, 256, 5 + n).astype(np.uint8) for n in range(ELEMENTS)],
        "label": np.arange(ELEMENTS, dtype=np.int64) * 3,
        "volume": random.standard_normal((ELEMENTS, 2, 3)).astype(np.float32),
        "tokens": [np.arange(n, dtype=np.uint16) for n in range(ELEMENTS)],
    }
    return write_dataset(tmp_path, "all kinds of columns", columns, {"image": "jpeg"})


def same(element, other):
    assert element.keys() == other.keys()
    for name, value in element.items():
        assert np.array_equal(value, other[name]), name
        if name != "index":
            assert np.asarray(value).dtype == np.asarray(other[name]).dtype, name


def test_every_kind_of_column_survives_a_table(dataset):
    for element, row in zip(
        dataset, rows_of_table(arrow_table(dataset), dataset.columns), strict=True
    ):
        same(element, row)


def test_a_slice_of_a_table_gives_the_elements_of_the_slice(dataset):
    rows = rows_of_table(arrow_table(dataset).slice(2, 3), dataset.columns)
    assert [row["index"] for row in rows] == [2, 3, 4]
    for row in rows:
        same(dataset[row["index"]], row)


def test_a_table_in_several_chunks_gives_all_elements(dataset):
    whole = arrow_table(dataset)
    rows = rows_of_table(pa.concat_tables([whole.slice(4), whole.slice(0, 4)]), dataset.columns)
    assert [row["index"] for row in rows] == [4, 5, 6, 0, 1, 2, 3]
    for row in rows:
        same(dataset[row["index"]], row)
