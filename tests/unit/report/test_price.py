"""The price of a million samples, in tables and exports."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from skymark.model.metric import Declaration, Metric
from skymark.report.html import render
from skymark.report.sheet import write_csv
from skymark.report.terminal import print_report
from skymark.rundir.reader import Run
from skymark.rundir.row import price_per_million_usd, rate_of


def priced(run: Run, hourly_price_usd: float | None) -> Run:
    """The same run on a machine of this price."""
    manifest = run.manifest.model_copy(update={"hourly_price_usd": hourly_price_usd})
    return dataclasses.replace(run, manifest=manifest)


def table(run: Run) -> str:
    output = io.StringIO()
    print_report(run, Console(file=output, width=200))
    return output.getvalue()


def test_a_million_samples_cost_the_time_that_they_take(saved: Run) -> None:
    record = next(one for one in saved.records if one.cell.id == "loading.TAB-1.small.numpy")
    rate = record.metrics["samples_per_s"].value
    price = price_per_million_usd(record, saved.declaration, 3.6)
    assert price == pytest.approx(1000 / rate)  # 3.60 an hour are a thousandth per second
    assert price_per_million_usd(record, saved.declaration, None) is None


def test_a_free_machine_costs_nothing_and_a_refused_cell_has_no_price(saved: Run) -> None:
    prices = {
        one.cell.adapter: price_per_million_usd(one, saved.declaration, 0.0)
        for one in saved.records
        if one.cell.scenario == "TAB-1"
    }
    assert prices["numpy"] == 0.0
    assert prices["webdataset"] is None


def test_tables_have_the_price_where_it_is_known(saved: Run) -> None:
    text = table(priced(saved, 3.6))
    assert "$ per 1M" in text
    line = next(line for line in text.splitlines() if line.startswith("numpy"))
    assert " 0.0167 " in line
    page = render(priced(saved, 3.6))
    assert "$ per 1M" in page
    assert re.search(r'title="[^"]*\b3\.6 USD [^"]*samples/s"', page)
    assert "$ per" not in table(saved)
    assert "$ per" not in render(saved)


def test_an_export_has_the_price_per_million(saved: Run, tmp_path: Path) -> None:
    for price, expected in ((3.6, pytest.approx(1 / 60, rel=0.01)), (None, None)):
        write_csv(priced(saved, price), tmp_path / "run.csv")
        with (tmp_path / "run.csv").open(newline="", encoding="utf-8") as file:
            rows = {row["cell_id"]: row for row in csv.DictReader(file)}
        text = rows["loading.TAB-1.small.numpy"]["price_per_million_usd"]
        assert (float(text) if text else None) == expected


def test_the_rate_is_the_primary_metric_else_the_first_that_counts_per_second() -> None:
    images = Metric(name="images_per_s", heading="images/s", unit="1/s", better="higher")
    tokens = images.model_copy(update={"name": "tokens_per_s", "heading": "tokens/s"})
    top = Metric(name="acc1", heading="acc1", better="higher")
    metrics = (top, images, tokens)
    assert rate_of(Declaration(suite="x", metrics=metrics, primary="tokens_per_s")) == tokens
    assert rate_of(Declaration(suite="x", metrics=metrics, primary="acc1")) == images
    assert rate_of(Declaration(suite="x", metrics=(top,), primary="acc1")) is None
