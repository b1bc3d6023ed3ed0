"""Sequences of Megatron Core's indexed dataset: a pair of files per column, mapped into memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from skymark.suites.loading.adapter import LoadingJob
from skymark.suites.loading.adapters.pytorch import Elements

if TYPE_CHECKING:
    from pathlib import Path

    from skymark.suites.loading.dataset.canonical import Column, Dataset, Element


class Sequences(Elements):
    """Elements of one sequence per column, read from memory-mapped files."""

    def __init__(self, job: LoadingJob) -> None:
        from megatron.core.datasets.indexed_dataset import IndexedDataset

        self.job = job
        self.columns = [
            (column, IndexedDataset(prefix_of(job.storage, column)))
            for column in job.dataset.columns
        ]

    def read(self, indices: list[int]) -> Iterator[Element]:
        """Yield elements whose arrays are views of the files."""
        for index in indices:
            element: Element = {"index": index}
            for column, sequences in self.columns:
                values = sequences[index]
                element[column.name] = values if column.is_ragged else values.reshape(column.shape)
            yield element


def prefix_of(directory: Path, column: Column) -> str:
    """Return the path of a column's files without their endings."""
    return str(directory / column.name)


def write_sequences(dataset: Dataset, column: Column, prefix: str) -> None:
    """Write one column, each element a sequence and a document."""
    import numpy as np
    from megatron.core.datasets.indexed_dataset import (
        IndexedDatasetBuilder,
        get_bin_path,
        get_idx_path,
    )

    builder = IndexedDatasetBuilder(get_bin_path(prefix), dtype=np.dtype(column.dtype).type)
    for element in dataset:
        values = np.ravel(element[column.name])
        builder.add_document(values, [values.size])
    builder.finalize(get_idx_path(prefix))
