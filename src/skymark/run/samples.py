"""The file of a cell's raw samples: every value of every round, as Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skymark.model.metric import ColumnType
from skymark.model.record import Record, RoundResult
from skymark.plain_files import read_below

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_ROWS = 20_000_000
"""Samples of one cell that are read; a file of few bytes may claim any number."""


def samples_file(rounds: Sequence[RoundResult], columns: Mapping[str, ColumnType]) -> bytes:
    """Return a Parquet file with the samples of rounds, one after another.

    Args:
        rounds: each with all columns, which are equally long, or with none and no samples.
        columns: their types by name; a column ``round`` with the round's number comes first.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {
        "bool": pa.bool_(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float64": pa.float64(),
    }
    measured = [one for one in rounds if one.samples]
    numbers = [one.round for one in measured for _ in next(iter(one.samples.values()))]
    table = {"round": pa.array(numbers, pa.int16())} | {
        name: pa.array([value for one in measured for value in one.samples[name]]).cast(types[kind])
        for name, kind in columns.items()
    }
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.table(table), buffer, compression="zstd")
    data: bytes = buffer.getvalue().to_pybytes()
    return data


def read_samples(
    directory: Path, record: Record, columns: Sequence[str]
) -> dict[str, NDArray[Any]] | None:
    """Read columns of a record's raw samples.

    Args:
        directory: the run's.
        record: names the file's digest.
        columns: their names.

    Returns:
        One array of float64 per column, all rounds one after another, truth as 1; None where no
        samples were kept.

    Raises:
        OSError: the file may not be read.
        ValueError: it is not what the record's digest says, or lacks a column.
    """
    if record.samples_sha256 is None:
        return None
    try:
        data = read_below(directory, f"samples/{record.cell.id}.parquet")
    except FileNotFoundError:
        return None
    if sha256(data).hexdigest() != record.samples_sha256:
        raise ValueError("is not what its record says; it was changed")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        if file.metadata.num_rows > MOST_ROWS:
            raise ValueError(f"has {file.metadata.num_rows:,} rows, more than are ever read")
        # Arrow's threads now and then abort a process that ends (apache/arrow issue 34314).
        table = file.read(list(columns), use_threads=False)
        return {name: table.column(name).cast(pa.float64()).to_numpy() for name in columns}
    except (pa.ArrowException, KeyError) as error:
        raise ValueError(f"cannot be read as Parquet with {', '.join(columns)}: {error}") from error
