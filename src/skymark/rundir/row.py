"""Record as one flat row, and a cell's raw samples of every round as Parquet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import reduce
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from skymark.model.metric import ColumnType, Declaration, Metric
from skymark.model.record import Record, RoundResult, Verification
from skymark.plain_files import read_below

if TYPE_CHECKING:
    from numpy.typing import NDArray


Value = str | int | float | bool | datetime | None

Column = tuple[type, Callable[[Record], Value]]
"""The type of a column, and its value in a record's row."""

OF_CELL: dict[str, Column] = {
    "cell_id": (str, lambda record: record.cell.id),
    "cell_hash": (str, lambda record: record.cell_hash),
    "suite": (str, lambda record: record.cell.suite),
    "scenario": (str, lambda record: record.cell.scenario),
    "variant": (str, lambda record: record.cell.variant),
    "axes": (str, lambda record: json.dumps(record.cell.axes)),
    "adapter": (str, lambda record: record.cell.adapter),
    "settings": (str, lambda record: json.dumps(record.cell.settings)),
}
"""Columns that say which cell a row belongs to. `axes` and `settings` are JSON."""

BEFORE: dict[str, Column] = {
    **OF_CELL,
    "status": (str, lambda record: record.status.value),
    "cause_kind": (str, lambda record: record.cause.kind if record.cause else None),
    "cause_message": (str, lambda record: record.cause.message if record.cause else None),
    "rounds": (int, lambda record: len(record.rounds)),
}
"""Columns of every record, before its metrics."""


def _checked(value_of: Callable[[Verification], Value]) -> Callable[[Record], Value]:
    """Return the function that reads a value of a record's verification, if it has one."""
    return lambda record: None if record.verification is None else value_of(record.verification)


AFTER: dict[str, Column] = {
    "verified": (bool, _checked(lambda check: check.passed)),
    "verified_elements": (int, _checked(lambda check: check.verified_elements)),
    "compared_elements": (int, _checked(lambda check: check.compared_elements)),
    "warnings": (
        str,
        lambda record: " ".join({warning.kind: None for warning in record.warnings}) or None,
    ),
    "versions": (str, lambda record: json.dumps(record.versions)),
    "extra": (str, lambda _: None),
    "price_usd": (float, lambda record: record.price_usd),
    "started_at": (datetime, lambda record: record.started_at),
    "ended_at": (datetime, lambda record: record.ended_at),
}
"""Columns of every record, after its metrics and conditions. `versions` and `extra`, which the
metrics of some scenarios fill, are JSON."""


def columns_of(declaration: Declaration) -> dict[str, type]:
    """Return the name and type of every column of a run's rows, in order.

    A metric that only some scenarios have is in `extra`; all others have columns of their own.
    """
    metrics = {
        name: int if name == metric.name and metric.integer else float
        for metric in declaration.shared
        for name in names_of_metric(metric)
    }
    before, after = ({name: kind for name, (kind, _) in part.items()} for part in (BEFORE, AFTER))
    return {**before, **metrics, **dict.fromkeys(declaration.conditions, str), **after}


def names_of_metric(metric: Metric) -> tuple[str, ...]:
    """Return the columns of a metric: its value and the bounds of its interval, if any."""
    if metric.outcome is None and (metric.pooled or metric.scale == "exact"):
        return (metric.name,)
    return (metric.name, f"{metric.name}_low", f"{metric.name}_high")


def rows_of(records: Iterable[Record], declaration: Declaration) -> Iterator[dict[str, Value]]:
    """Yield one row per record: every column, missing as None."""
    empty: dict[str, Value] = dict.fromkeys(columns_of(declaration))
    for record in records:
        conditions = {name: record.conditions.get(name) for name in declaration.conditions}
        yield {
            **empty,
            **{name: value_of(record) for name, (_, value_of) in (BEFORE | AFTER).items()},
            **_metrics(record, declaration),
            **{name: None if value is None else str(value) for name, value in conditions.items()},
        }


def _metrics(record: Record, declaration: Declaration) -> dict[str, Value]:
    if not record.metrics:
        return {}
    row: dict[str, Value] = {}
    own = dict(record.metrics)
    for metric in declaration.shared:
        if (figure := own.pop(metric.name, None)) is None:
            continue
        value = int(figure.value) if metric.integer else figure.value
        values = (value, figure.low, figure.high)
        row |= zip(names_of_metric(metric), values, strict=False)
    row["extra"] = json.dumps({name: figure.value for name, figure in own.items()})
    return row


PER_SECOND = "1/s"
"""The unit of rates."""
MILLION = 1e6
HOUR_S = 3600


def rate_of(declaration: Declaration) -> Metric | None:
    """Return the metric of throughput: the primary metric, else the first rate."""
    primary = declaration.primary_metric
    return next(
        (metric for metric in (primary, *declaration.shared) if metric.unit == PER_SECOND),
        None,
    )


def price_per_million_usd(
    record: Record, declaration: Declaration, hourly_price_usd: float | None
) -> float | None:
    """Return the machine's cost per million samples at the record's rate.

    Args:
        record: of any status.
        declaration: names the rate.
        hourly_price_usd: of the machines that measured, together.

    Returns:
        US dollars; None if the price is unknown or the record has no rate.
    """
    rate = rate_of(declaration)
    figure = None if rate is None else record.metrics.get(rate.name)
    if hourly_price_usd is None or figure is None or figure.value <= 0:
        return None
    return MILLION / figure.value / HOUR_S * hourly_price_usd


OF_ROUNDS = frozenset({"round", "taken_share"})
"""Columns of the samples that say of which round they are."""
MOST_ROWS = 20_000_000
"""Most samples of one cell to read; a file of few bytes may claim any number."""


def sample_origin(record: Record, run_id: str | None) -> dict[str, Value]:
    """Return the columns that name a sample's run, cell, libraries and machine."""
    return {
        "run_id": run_id,
        **{name: value_of(record) for name, (_, value_of) in OF_CELL.items()},
        "versions": json.dumps(record.versions),
        "hardware_key": record.hardware_key,
    }


def samples_file(
    rounds: Sequence[RoundResult],
    columns: Mapping[str, ColumnType],
    origin: Mapping[str, Value] = MappingProxyType({}),
) -> bytes:
    """Return a Parquet file with the samples of rounds, one after another.

    Args:
        rounds: each with all columns, or with none and no samples. Rows beyond the end of a
            shorter column are null there.
        columns: their types by name; a column ``round`` with the round's number comes
            first, then ``taken_share``, the processors that others took meanwhile.
        origin: text columns that are the same in all rows, as `sample_origin` returns them. They
            come last, and the file stores each value once.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {
        "bool": pa.bool_(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float64": pa.float64(),
    }
    rows = [(one, max(map(len, one.samples.values()))) for one in rounds if one.samples]
    total = sum(count for _, count in rows)

    def repeated(value: Value, kind: Any, count: int) -> Any:
        return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)

    zeros = repeated(0, pa.int8(), total)  # one for all texts, however many rows there are

    def of_rounds(value_of: Callable[[RoundResult], Value], kind: Any) -> Any:
        return pa.chunked_array([repeated(value_of(one), kind, count) for one, count in rows], kind)

    def text(value: Value) -> Any:
        if value is None:
            return pa.nulls(total, pa.string())
        return pa.DictionaryArray.from_arrays(zeros, [value])

    def column(name: str) -> list[float | None]:
        each = ((one.samples[name], count) for one, count in rows)
        return [value for held, count in each for value in (*held, *(None,) * (count - len(held)))]

    table = {
        "round": of_rounds(lambda one: one.round, pa.int16()),
        "taken_share": of_rounds(
            lambda one: one.machine.taken_share if one.machine else None, pa.float32()
        ),
        **{name: pa.array(column(name)).cast(types[kind]) for name, kind in columns.items()},
        **{name: text(value) for name, value in origin.items()},
    }
    buffer = pa.BufferOutputStream()
    # Without Arrow's schema the texts are read as strings, so that files of many cells can be
    # grouped together.
    pq.write_table(pa.table(table), buffer, compression="zstd", store_schema=False)
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
        One array of float64 per column, all rounds in sequence, true as 1, missing as NaN; rows
        that lack all of the columns are left out. None without samples.

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
        held = {name: table.column(name).cast(pa.float64()).to_numpy() for name in columns}
    except (pa.ArrowException, KeyError) as error:
        raise ValueError(f"cannot be read as Parquet with {', '.join(columns)}: {error}") from error
    from numpy import isnan, logical_and

    own = [values for name, values in held.items() if name not in OF_ROUNDS]
    if not any(isnan(values).any() for values in own):
        return held
    there = ~reduce(logical_and, map(isnan, own))
    return {name: values[there] for name, values in held.items()}


def read_outcomes(directory: Path, record: Record, metric: Metric) -> NDArray[Any] | None:
    """Read each element's part of a metric, from the last round that has it; None without it.

    Raises:
        OSError: the file may not be read.
        ValueError: it is not what the record's digest says.
    """
    if metric.outcome is None:
        return None
    held = read_samples(directory, record, ("round", metric.outcome))
    if held is None or not len(held["round"]):
        return None
    last = held["round"] == held["round"].max()
    found: NDArray[Any] = held[metric.outcome][last]
    return found
