"""The flat table."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from skymark.report.sheet import columns, csv_cell, write_csv, write_parquet
from skymark.rundir.reader import Run


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


@given(st.text(st.sampled_from("=+-@\t\r\n'1.5e \x1b\u200b＝") | st.characters(), max_size=12))
def test_a_csv_cell_of_any_text_is_no_formula_and_no_escape(text: str) -> None:
    cell = str(csv_cell(text))
    assert "\x1b" not in cell
    assert not cell.startswith(("=", "@", "\t", "\r", "\n", "＝"))
    if cell.startswith(("+", "-")):
        float(cell)


def test_numbers_stay_numbers_and_headings_are_no_formulas(saved: Run, tmp_path: Path) -> None:
    assert [csv_cell(value) for value in (-1.5, "-1.5", "+2e3", None, True)] == [
        -1.5, "-1.5", "+2e3", None, True,
    ]  # fmt: skip
    assert csv_cell("-1.5;=1") == "'-1.5;=1"
    manifest = saved.manifest.model_copy(update={"run_id": '=HYPERLINK("http://x.invalid")'})
    write_csv(dataclasses.replace(saved, manifest=manifest), tmp_path / "run.csv")
    with (tmp_path / "run.csv").open(newline="", encoding="utf-8") as file:
        assert {line["run_id"][:2] for line in csv.DictReader(file)} == {"'="}
