"""The canonical form gives back what was written, whatever its shape."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from skymark.model.errors import DataError
from skymark.suites.loading.dataset.canonical import Dataset, write_dataset


def test_columns_of_every_kind_come_back(tmp_path: Path) -> None:
    ragged = [np.arange(length, dtype=np.int32) for length in (3, 0, 5)]
    fixed = np.random.default_rng(0).random((3, 2, 4)).astype(np.float32)

    dataset = write_dataset(tmp_path / "set", "mixed", {"ragged": ragged, "fixed": fixed})

    for index, element in enumerate(dataset):
        assert element["index"] == index
        assert np.array_equal(element["ragged"], ragged[index])
        assert element["ragged"].dtype == np.int32
        assert np.array_equal(element["fixed"], fixed[index])
    assert [column.is_ragged for column in dataset.columns] == [True, False]


def test_ragged_elements_are_written_as_they_come(tmp_path: Path) -> None:
    path = tmp_path / "set" / "tokens.values.npy"
    sizes: list[int] = []

    def pieces() -> Iterator[np.ndarray]:
        for _ in range(20):
            yield np.zeros(100_000, np.uint8)
            sizes.append(path.stat().st_size)

    write_dataset(tmp_path / "set", "streamed", {"tokens": pieces()})

    assert sizes[10] >= 9 * 100_000
    assert np.load(path, mmap_mode="r").shape == (2_000_000,)


def test_a_dataset_of_no_elements_can_be_opened(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "set", "empty", {"tokens": []})

    assert len(dataset) == 0
    assert list(dataset) == []


def test_ragged_elements_of_two_dtypes_are_an_error_that_names_one(tmp_path: Path) -> None:
    pieces = [np.zeros(3, np.int32), np.zeros(3, np.int64)]

    with pytest.raises(DataError, match=r"element 1\b.* int64"):
        write_dataset(tmp_path / "set", "mixed", {"tokens": pieces})


def test_columns_of_different_length_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'uneven' .*'a': 3\b.*'b': 4"):
        write_dataset(tmp_path / "set", "uneven", {"a": np.zeros(3), "b": np.zeros(4)})


def test_a_directory_that_is_no_dataset_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no skymark dataset"):
        Dataset(tmp_path)


def test_a_dataset_sent_to_another_process_opens_the_same_files(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "set", "numbers", {"value": np.arange(5)})

    sent = pickle.loads(pickle.dumps(dataset))

    assert [int(element["value"]) for element in sent] == [0, 1, 2, 3, 4]
