"""The file of a cell's raw samples: every value of every round, as Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skymark.model.metric import ColumnType
from skymark.model.record import RoundResult


def samples_file(rounds: Sequence[RoundResult], columns: Mapping[str, ColumnType]) -> bytes:
    """Return a Parquet file with the samples of rounds, one after another.

    Args:
        rounds: each with all columns, which are equally long.
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
    numbers = [one.round for one in rounds for _ in next(iter(one.samples.values()), ())]
    table = {"round": pa.array(numbers, pa.int16())} | {
        name: pa.array([value for one in rounds for value in one.samples[name]]).cast(types[kind])
        for name, kind in columns.items()
    }
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.table(table), buffer, compression="zstd")
    data: bytes = buffer.getvalue().to_pybytes()
    return data
