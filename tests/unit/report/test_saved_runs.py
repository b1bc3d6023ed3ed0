"""A saved run shows the figures that earlier versions showed of it, to the last digit.

`tests/data/expected-figures.json` holds the output of `report`, `export` and `compare`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from skymark.report.compare import compare_runs
from skymark.report.comparison_tables import print_comparison
from skymark.report.html import render
from skymark.report.sheet import write_csv, write_parquet
from skymark.report.terminal import print_report
from skymark.rundir.reader import Run, open_run

DATA = Path(__file__).parents[2] / "data"
EXPECTED: dict[str, Any] = json.loads((DATA / "expected-figures.json").read_text())
ENDS = ("", "_low", "_high")


@pytest.fixture
def run() -> Run:
    """The saved run."""
    return open_run(DATA / "run")


def expected_cells() -> Iterator[tuple[str, dict[str, Any], dict[str, float | None]]]:
    """Yield each cell's id, its expected facts, and its expected figures by column."""
    for id, cell in EXPECTED["cells"].items():
        facts = {name: value for name, value in cell.items() if name != "figures"}
        figures = {
            f"{name}{end}": value
            for name, values in cell["figures"].items()
            for end, value in zip(ENDS, values, strict=True)
        }
        yield f"loading.{id}", facts, figures


def test_the_parquet_export_has_every_figure_as_before(run: Run, tmp_path: Path) -> None:
    write_parquet(run, tmp_path / "run.parquet")
    rows = {row["cell_id"]: row for row in pq.read_table(tmp_path / "run.parquet").to_pylist()}
    assert len(rows) == len(EXPECTED["cells"])
    every = {name for _, _, figures in expected_cells() for name in figures}
    for id, facts, figures in expected_cells():
        row = rows[id]
        assert {name: row[name] for name in facts} == facts
        assert {name: row.get(name) for name in every} == dict.fromkeys(every) | figures


def test_the_csv_export_has_every_figure_as_before(run: Run, tmp_path: Path) -> None:
    write_csv(run, tmp_path / "run.csv")
    with (tmp_path / "run.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["cell_id"]: row for row in csv.DictReader(file)}
    for id, facts, figures in expected_cells():
        found = {name: rows[id][name] for name in facts} | {
            name: rows[id].get(name, "") for name in figures
        }
        wanted = {**facts, **figures}
        assert found == {name: "" if one is None else str(one) for name, one in wanted.items()}


def test_the_table_in_the_terminal_is_as_before(run: Run) -> None:
    shown = io.StringIO()
    print_report(run, Console(file=shown, width=300), wide=True)
    assert shown.getvalue().splitlines()[1:] == EXPECTED["table"]


class Numbers(HTMLParser):
    """Collects the numbers of the rankings: by table, adapter and heading."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, dict[str, dict[str, float | None]]] = {}
        self._rows: dict[str, dict[str, float | None]] = {}
        self._headings: list[str] = []
        self._row: list[float | None] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        own = dict(attributes)
        if tag == "h3":
            self._inside, self._headings = "label", []
        elif tag == "button":
            self._inside = "heading"
        elif tag == "th" and own.get("scope") == "row":
            self._inside, self._row = "adapter", []
        elif tag == "td" and "data-value" in own:
            self._row.append(float(value) if (value := own["data-value"]) else None)

    def handle_data(self, text: str) -> None:
        if self._inside == "label":
            self._rows = self.found.setdefault(text, {})
        elif self._inside == "heading":
            self._headings.append(text)
        elif self._inside == "adapter":
            self._rows[text.strip()] = {}
        self._inside = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "tr" and self._row and self._rows:
            name = list(self._rows)[-1]
            self._rows[name] = dict(zip(self._headings[1:], self._row, strict=True))
            self._row = []


def test_the_page_has_every_number_as_before(run: Run) -> None:
    numbers = Numbers()
    numbers.feed(render(run).partition('id="verification"')[0])
    for label, rows in EXPECTED["page"].items():
        for adapter, wanted in rows.items():
            found = numbers.found[label][adapter]
            assert {name: found.get(name) for name in wanted} == wanted, (label, adapter)


def test_the_comparison_is_as_before(run: Run) -> None:
    comparison = compare_runs(run, run)
    assert len(comparison.cells) == len(EXPECTED["comparison"])
    for cell in comparison.cells:
        wanted = EXPECTED["comparison"][cell.cell_id.removeprefix("loading.")]
        if wanted is None:
            assert cell.metrics == ()
            continue
        (one,) = cell.metrics
        assert one.metric == "samples_per_s"
        assert one.difference is not None
        assert one.difference.ratio is not None
        ratio = one.difference.ratio.model_dump()
        found = {"before": one.before, "after": one.after, **ratio}
        assert found | {"verdict": one.difference.verdict.value} == wanted | {
            # The last digits of a quantile are those of the scipy that is installed.
            name: pytest.approx(wanted[name], rel=1e-12)
            for name in ratio
            if wanted[name] is not None
        }
    shown = io.StringIO()
    print_comparison(comparison, Console(file=shown, width=300))
    assert shown.getvalue().splitlines()[1:] == EXPECTED["comparison_table"]
