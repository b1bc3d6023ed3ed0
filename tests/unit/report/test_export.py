"""The flat table."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from skymark.report.export import columns, write_csv, write_parquet
from skymark.run.reader import Run


def test_csv_has_a_line_per_cell_and_missing_is_empty(saved: Run, tmp_path: Path) -> None:
    write_csv(saved, tmp_path / "run.csv")
    with (tmp_path / "run.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 10
    assert list(lines[0]) == list(columns(saved))
    by_adapter = {line["adapter"]: line for line in lines if line["scenario"] == "TAB-1"}
    assert float(by_adapter["tfdata"]["samples_per_s"]) > 200_000
    assert by_adapter["tfdata"]["peak_pss_bytes"] == ""
    assert by_adapter["webdataset"]["samples_per_s"] == ""
    assert "standardise" in by_adapter["webdataset"]["cause_message"]


def test_parquet_has_types_and_nulls(saved: Run, tmp_path: Path) -> None:
    write_parquet(saved, tmp_path / "run.parquet")
    table = pq.read_table(tmp_path / "run.parquet")
    assert table.num_rows == 10
    assert table.schema.field("samples_per_s").type == pa.float64()
    assert table.schema.field("started_at").type == pa.timestamp("us", tz="UTC")
    assert table.column("samples_per_s").null_count == 5
    assert table.column("utilisation").null_count == 9


def test_both_forms_hold_the_same_numbers(saved: Run, tmp_path: Path) -> None:
    write_csv(saved, tmp_path / "run.csv")
    write_parquet(saved, tmp_path / "run.parquet")
    with (tmp_path / "run.csv").open(newline="", encoding="utf-8") as file:
        from_csv = [line["samples_per_s"] for line in csv.DictReader(file)]
    from_parquet = pq.read_table(tmp_path / "run.parquet").column("samples_per_s").to_pylist()
    assert from_csv == ["" if value is None else str(value) for value in from_parquet]
