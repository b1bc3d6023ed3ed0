"""Random access to raw elements, for libraries that take a user's own source."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from skymark.suites.loading.dataset.canonical import Dataset, Element


class Reader(Protocol):
    """Random access to the raw elements of one storage format. Picklable. A `Dataset` is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Element: ...


class MemoryReader(Reader):
    """All elements, held in memory in their stored form (encoded images stay encoded)."""

    def __init__(self, dataset: Dataset) -> None:
        self._elements = [
            {name: np.array(value) if name != "index" else value for name, value in element.items()}
            for element in dataset
        ]

    def __len__(self) -> int:
        return len(self._elements)

    def __getitem__(self, index: int) -> Element:
        return dict(self._elements[index])
