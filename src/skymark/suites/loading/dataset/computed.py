"""Data that is not stored: elements computed from their index, of which there may be any number."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from math import prod
from pathlib import Path

import numpy as np

from skymark.suites.loading.dataset.canonical import Array, Column, Dataset, Element
from skymark.suites.loading.transforms.numeric import mix

MANTISSA = 24
"""Bits of a float32 of which every one is random."""


class ComputedDataset(Dataset):
    """A canonical dataset whose columns are hashes of index, column and place in it."""

    def _open(self, column: Column) -> None:
        """Open nothing: no column is stored."""

    @property
    def _widths(self) -> list[tuple[str, int]]:
        return [(column.name, prod(column.shape or ())) for column in self.columns]

    def __getitem__(self, index: int) -> Element:
        row = self.rows(np.array([index], np.int64))
        return {"index": index, **{name: values[0] for name, values in row.items()}}

    def rows(self, indices: Array) -> dict[str, Array]:
        """Return the columns of some elements, each float32 ``[n, width]``, uniform in [0, 1).

        Args:
            indices: int64 ``[n]``.
        """
        keys = mix(indices.astype(np.uint64))[:, None]
        found: dict[str, Array] = {}
        for number, (column, width) in enumerate(self._widths):
            places = np.arange(width, dtype=np.uint64) + np.uint64(number << 32)
            bits = mix(keys + places) >> np.uint64(64 - MANTISSA)
            found[column] = bits.astype(np.float32) / np.float32(1 << MANTISSA)
        return found


def write_computed(
    directory: Path, name: str, elements: int, widths: Mapping[str, int]
) -> ComputedDataset:
    """Write what a computed dataset is, and open it.

    Args:
        directory: made if absent.
        name: what the data is, for people.
        elements: how many there are.
        widths: the numbers that an element has in each column.
    """
    directory.mkdir(parents=True, exist_ok=True)
    columns = [asdict(Column(column, "<f4", (width,))) for column, width in widths.items()]
    meta = {"name": name, "length": elements, "columns": columns}
    (directory / "meta.json").write_text(json.dumps(meta, indent=1))
    return ComputedDataset(directory)
