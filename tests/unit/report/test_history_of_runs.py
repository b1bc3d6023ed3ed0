"""Cells over many runs, and where their level changed."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import pytest

from skymark.cli.main import main
from skymark.model.data import DataTaken
from skymark.model.errors import UsageError
from skymark.model.manifest import Pair
from skymark.report.history import bars, history_of, runs_in, write_history
from skymark.rundir.reader import Run
from skymark.statistics.difference import Verdict

Series = Callable[..., Path]


def read(*places: Path) -> list[Run]:
    runs, problems = runs_in(places)
    assert problems == []
    return runs


@pytest.fixture
def series(make: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Series:
    """Returns a maker of hourly runs in which numpy has these speeds and grain stays."""

    def runs(speeds: Sequence[float], **more: object) -> Path:
        begin = make.BEGIN
        for number, speed in enumerate(speeds):
            # Names do not tell the order; the time of a run does.
            name = f"run-{len(speeds) - number:02}"
            monkeypatch.setattr(make, "BEGIN", begin + timedelta(hours=number))
            records = [
                make.measured(
                    make.cell("TAB-1", adapter, **(more if number == 0 else {})),
                    make.rounds_of(rate, name=f"{name}{adapter}"),
                )
                for adapter, rate in (("numpy", speed), ("grain", 2000))
            ]
            make.write_run(tmp_path / "results" / name, records)
        monkeypatch.setattr(make, "BEGIN", begin)
        return tmp_path / "results"

    return runs


def test_a_step_is_named_by_the_first_run_that_has_it(series: Series) -> None:
    found = history_of(read(series([1000] * 6 + [800] * 5)))
    numpy, grain = found.cells
    assert found.run_ids[0] == "run-11"
    assert len(numpy.values) == 11
    (change,) = numpy.changes
    assert change.run_id == "run-05"
    assert change.difference.verdict is Verdict.WORSE
    assert change.difference.ratio is not None
    assert change.difference.ratio.value == pytest.approx(0.8, rel=0.02)
    assert grain.changes == ()


def test_a_baseline_of_a_comparison_in_pairs_is_no_day_of_its_own(
    series: Series, make: ModuleType
) -> None:
    directory = series([1000] * 3)
    duet = Pair(side="baseline", partner="run-01", commit="c" * 40)
    records = [make.measured(make.cell("TAB-1", "numpy"), make.rounds_of(500, name="old"))]
    baseline = make.write_run(directory / "run-01-baseline", records, duet=duet)
    assert len(read(directory)) == 3
    assert [run.directory for run in read(baseline)] == [baseline]


def test_the_command_shows_bars_and_changes(
    series: Series, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    directory = series([1000] * 6 + [1300] * 5)
    assert main(["history", str(directory)]) == 0
    text = capsys.readouterr().out
    assert re.search(r"\(faster\) \w+ run-05", text)
    assert "█" in text
    assert re.search(r"11 runs\D+1\D+2 .*\b5 %", text)
    assert main(["history", str(directory), "--practical", "0.5", "--json"]) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert [cell["changes"] for cell in cells] == [[], []]


def test_runs_of_other_settings_are_left_out_and_counted(series: Series) -> None:
    found = history_of(read(series([1000] * 5, settings={"workers": 8})))
    assert [(len(cell.values), cell.other_runs) for cell in found.cells] == [(4, 1), (4, 1)]


def on_data(run: Run, name: str) -> Run:
    """Return a run whose records say that they are of real data."""
    data = DataTaken(name=name, noun="rows", taken=2000, found=2000)
    update = {"cell_hash": f"of-{name}", "data": data}
    records = tuple(one.model_copy(update=update) for one in run.records)
    return dataclasses.replace(run, records=records)


@pytest.mark.parametrize("other", [1, 3])
def test_a_run_on_other_data_has_a_series_of_its_own(series: Series, other: int) -> None:
    runs = read(series([1000] * 4))
    runs[other] = on_data(runs[other], "./table.csv")
    found = history_of(runs)
    lengths = {(one.adapter, one.data): len(one.values) for one in found.cells}
    assert lengths == {
        ("numpy", None): 3, ("grain", None): 3,
        ("numpy", "./table.csv"): 1, ("grain", "./table.csv"): 1,
    }  # fmt: skip
    assert [one.other_runs for one in found.cells] == [0] * 4
    assert {one.name for one in found.cells} == {
        "TAB-1:small", "TAB-1:small on ./table.csv"
    }  # fmt: skip


def test_runs_of_another_machine_are_refused(
    series: Series, make: ModuleType, tmp_path: Path
) -> None:
    directory = series([1000] * 3)
    hardware = make.MACHINE.hardware.model_copy(update={"cpu_model": "Another CPU"})
    other = make.MACHINE.model_copy(update={"hardware": hardware})
    records = [make.measured(make.cell("TAB-1", "numpy"), make.rounds_of(1000))]
    make.write_run(directory / "other", records, machine=other)
    with pytest.raises(UsageError, match="different machines"):
        history_of(read(directory))


def test_a_run_is_taken_once_however_often_it_is_named(series: Series) -> None:
    directory = series([1000] * 2)
    assert len(read(directory, directory / "run-01")) == 2


def test_a_damaged_run_is_left_out_and_named_beside_whole_ones(series: Series) -> None:
    directory = series([1000] * 3)
    (directory / "run-02" / "manifest.json").write_text("{")
    runs, (problem,) = runs_in([directory])
    assert [run.manifest.run_id for run in runs] == ["run-03", "run-01"]
    assert "run-02" in problem
    with pytest.raises(UsageError, match="run-02"):
        runs_in([directory / "run-02"])
    for name in ("run-01", "run-03"):
        (directory / name / "manifest.json").write_text("{")
    with pytest.raises(UsageError, match=r"no run .*run-01"):
        runs_in([directory])


def test_a_directory_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"{tmp_path} .*directory of runs"):
        read(tmp_path)


def test_bars_span_from_the_lowest_to_the_highest() -> None:
    assert bars([1.0, 2.0, 8.0], 0.05) == "▁▂█"
    for equal in (3.0, 0.0):
        assert bars([equal, equal], 0.05) in {"▄▄", "▅▅"}


@pytest.mark.parametrize("practical", [0.02, 0.05, 0.5])
def test_noise_below_a_change_that_counts_is_no_hill(practical: float) -> None:
    noise = [100 * (1 + practical * part) for part in (-0.1, 0.1, 0.0, 0.1, -0.1)]
    assert set(bars(noise, practical)) <= set("▄▅")
    step = [100.0, 100.0, *[100 * (1 - 2 * practical)] * 2]
    assert bars(step, practical) == "██▁▁"


def test_the_page_has_a_line_per_cell_and_a_mark_per_change(
    series: Series, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history.html"
    assert main(["history", str(series([1000] * 6 + [1500] * 5)), "--page", str(path)]) == 0
    assert f"page in {path}" in " ".join(capsys.readouterr().err.split())
    text = path.read_text(encoding="utf-8")
    assert text.count("<polyline") == 2
    assert text.count('<line x1="55.0"') == 1
    assert re.search(r"\(faster\) \w+ run-05", text)
    assert "http:" not in text
    assert "https:" not in text


def test_text_of_a_run_is_no_markup_on_the_page(series: Series, tmp_path: Path) -> None:
    found = history_of(read(series([1000] * 2)))
    cells = (found.cells[0].model_copy(update={"adapter": "<script>\x1b"}),)
    write_history(found.model_copy(update={"cells": cells}), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "\x1b" not in text


def test_a_page_that_cannot_be_written_says_so(series: Series, tmp_path: Path) -> None:
    found = history_of(read(series([1000])))
    (tmp_path / "a file").touch()
    with pytest.raises(UsageError, match=r"a file/page\.html: "):
        write_history(found, tmp_path / "a file" / "page.html")
