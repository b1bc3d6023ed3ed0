"""Fields as bytes: what `to_bytes` writes, `from_bytes` gives back, and NumPy can read."""

from __future__ import annotations

import io

import numpy as np
import pytest

from skymark.suites.loading.dataset.canonical import Array, Column
from skymark.suites.loading.dataset.files import from_bytes, to_bytes

FIELDS = {
    "a scalar": (Column("label", "<i8", ()), np.asarray(7)),
    "a row": (Column("features", "<f4", (3,)), np.arange(3, dtype=np.float32)),
    "a volume": (
        Column("volume", "<i2", (2, 3, 4)),
        np.arange(24, dtype=np.int16).reshape(2, 3, 4),
    ),
    "columns first": (Column("m", "<f8", (2, 3)), np.asfortranarray(np.arange(6.0).reshape(2, 3))),
    "a ragged row": (Column("tokens", "<u2", None), np.arange(5, dtype=np.uint16)),
    "nothing": (Column("tokens", "<u2", None), np.empty(0, np.uint16)),
    "a photograph": (Column("jpeg", "|u1", None, "jpeg"), np.frombuffer(b"encoded", np.uint8)),
}


@pytest.mark.parametrize(("column", "value"), FIELDS.values(), ids=FIELDS)
def test_a_field_comes_back_from_its_bytes(column: Column, value: Array) -> None:
    back = from_bytes(column, to_bytes(column, value))
    assert back.dtype == np.dtype(column.dtype)
    np.testing.assert_array_equal(back, value)


def test_raw_fields_are_files_that_numpy_reads() -> None:
    column, value = FIELDS["a volume"]
    np.testing.assert_array_equal(np.load(io.BytesIO(to_bytes(column, value))), value)
