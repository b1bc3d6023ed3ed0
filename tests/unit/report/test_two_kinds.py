"""Cells without the primary metric are shown by its stand-in, apart from those that have it."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from skymark.model.record import Record
from skymark.report.compare import compare_runs, gate
from skymark.report.history import history_of
from skymark.report.html import render
from skymark.report.markdown import run_markdown
from skymark.report.ranking_table import ranked
from skymark.report.terminal import print_report
from skymark.rundir.reader import Run, open_run
from skymark.statistics.difference import Verdict

Build = Callable[..., Run]
WHY = "no steady stream; CV-1:long has one, or give it 256 elements"


def without_stream(record: Record) -> Record:
    """The record of the same cell, whose epochs have no stream."""
    kept = {name: one for name, one in record.metrics.items() if name != "samples_per_s"}
    rounds = tuple(
        one.model_copy(
            update={"metrics": {k: v for k, v in one.metrics.items() if k != "samples_per_s"}}
        )
        for one in record.rounds
    )
    conditions = {**record.conditions, "stream": WHY}
    changed = {"metrics": kept, "rounds": rounds, "conditions": conditions}
    return record.model_copy(update=changed)


@pytest.fixture
def build(make: ModuleType, tmp_path: Path) -> Build:
    """Returns a maker of runs with three adapters, some of which have no stream."""

    def run(name: str, lacking: tuple[str, ...] = ("grain",), grain: float = 2000) -> Run:
        speeds = {"numpy": 1000, "grain": grain, "pytorch": 1500}
        records = [
            make.measured(
                make.cell("TAB-1", adapter), make.rounds_of(speed, name=name + adapter, count=4)
            )
            for adapter, speed in speeds.items()
        ]
        records = [without_stream(one) if one.cell.adapter in lacking else one for one in records]
        return open_run(make.write_run(tmp_path / name, records))

    return run


def test_a_cell_without_the_primary_metric_is_not_ranked(build: Build) -> None:
    run = build("a")
    rows = ranked(run.records, run.declaration)
    assert [row.record.cell.adapter for row in rows] == ["pytorch", "numpy"]


@pytest.mark.parametrize("lacking", [("grain",), ("grain", "numpy", "pytorch")])
def test_every_report_shows_it_apart_with_the_reason(
    build: Build, lacking: tuple[str, ...]
) -> None:
    run, output = build("a", lacking=lacking), io.StringIO()
    print_report(run, Console(file=output, width=140))
    text = output.getvalue()
    assert f"not ranked: {WHY}" in text
    shown = text.partition("not ranked")[2].splitlines()
    assert shown[1].split()[:3] == ["loader", "epoch", "samples/s"]
    (grain,) = [line for line in shown if line.startswith("grain")]
    assert grain.split()[1:3] == ["2.01", "k"]
    page = run_markdown(run)
    assert f"Not ranked: {WHY}" in page
    assert "Google Grain" in page.partition("Not ranked")[2]
    html = render(run)
    assert f"Not ranked: {WHY}." in html
    overview = html.split('class="overview"')[1].split("</table>")[0]
    assert overview.count(">not ranked</td>") == len(lacking)
    assert "status ok" not in overview
    assert "not-measured" not in html


def test_two_runs_of_one_kind_are_compared_by_the_stand_in(build: Build) -> None:
    found = compare_runs(build("a"), build("b", grain=3000))
    verdicts = {
        (cell.adapter, one.metric): one.difference.verdict
        for cell in found.cells
        for one in cell.metrics
        if one.difference is not None
    }
    assert verdicts == {
        ("numpy", "samples_per_s"): Verdict.NO_DIFFERENCE,
        ("pytorch", "samples_per_s"): Verdict.NO_DIFFERENCE,
        ("grain", "epoch_samples_per_s"): Verdict.BETTER,
    }


def test_cells_of_two_kinds_are_not_compared_and_no_regression(build: Build) -> None:
    found = compare_runs(build("a", lacking=()), build("b", grain=10))
    (grain,) = [cell for cell in found.cells if cell.adapter == "grain"]
    assert grain.metrics == ()
    assert not grain.regressed
    gate(found)


def test_a_history_holds_one_kind_only(build: Build) -> None:
    history = history_of([build("a", lacking=()), build("b")])
    runs = {one.adapter: one.run_ids for one in history.cells}
    assert runs == {"numpy": ("a", "b"), "pytorch": ("a", "b"), "grain": ("a",)}
