"""The format ``parquet``: files of `PARQUET_FILE_ROWS` rows in groups of `PARQUET_ROW_GROUP`."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from skymark.suites.loading.dataset.arrow import arrow_table, rows_of_table
from skymark.suites.loading.dataset.canonical import Dataset, Element
from skymark.suites.loading.dataset.reader import Reader

PARQUET_ROW_GROUP = 64
PARQUET_FILE_ROWS = 128
"""Rows per file, so that readers that share files between workers have several to share."""


class ParquetReader(Reader):
    """Random access into Parquet files; each thread keeps its files and the row group read last."""

    def __init__(self, directory: Path, dataset: Dataset) -> None:
        self._directory = directory
        self._columns = dataset.columns
        self._length = len(dataset)
        self._open = threading.local()

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Element:
        mine = self._open
        group, row = divmod(int(index), PARQUET_ROW_GROUP)
        if getattr(mine, "group", None) != group:
            mine.rows = self._read(group)
            mine.group = group
        return dict(mine.rows[row])

    def _read(self, group: int) -> list[Element]:
        import pyarrow.parquet as pq

        files: dict[int, Any] = self._open.__dict__.setdefault("files", {})
        number, group_in_file = divmod(group, PARQUET_FILE_ROWS // PARQUET_ROW_GROUP)
        if number not in files:
            files[number] = pq.ParquetFile(self._directory / f"{number:05d}.parquet")
        table = files[number].read_row_group(group_in_file)
        return rows_of_table(table, self._columns)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _open=threading.local())


def write_parquet(dataset: Dataset, directory: Path) -> None:
    """Write Parquet files of `PARQUET_FILE_ROWS` rows, ``00000.parquet`` and on."""
    import pyarrow.parquet as pq

    for number, start in enumerate(range(0, len(dataset), PARQUET_FILE_ROWS)):
        table = arrow_table(dataset, start, start + PARQUET_FILE_ROWS)
        path = directory / f"{number:05d}.parquet"
        pq.write_table(table, path, row_group_size=PARQUET_ROW_GROUP)
