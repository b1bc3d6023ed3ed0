"""Run directories: whole, half, damaged, hostile."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from skymark.model.errors import RunDirectoryError
from skymark.model.record import SCHEMA_VERSION, Status
from skymark.report.html import render
from skymark.run.reader import Run, open_run
from skymark.whole_files import LARGEST_FILE_BYTES

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture
def copy(saved: Run, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved.directory, tmp_path / "run"))


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_a_run_saved_with_each_schema_version_opens_whole(version: int) -> None:
    saved = open_run(DATA / f"run-v{version}")
    assert saved.manifest.schema_version == version
    assert saved.problems == ()
    assert saved.missing == ()
    assert saved.counts == {
        Status.OK: 5,
        Status.INVALID: 1,
        Status.FAILED: 1,
        Status.TIMEOUT: 1,
        Status.SKIPPED: 1,
        Status.UNSUPPORTED: 1,
    }
    assert [record.cell.id for record in saved.records] == list(saved.manifest.cells)


def test_records_are_grouped_by_what_they_measure(saved: Run) -> None:
    groups = saved.by_label()
    assert list(groups) == ["TAB-1:small", "PC-1:small depth=5"]
    assert len(groups["TAB-1:small"]) == 8


def test_an_interrupted_run_opens_with_what_it_has(make: ModuleType, tmp_path: Path) -> None:
    todo = make.cell("CV-1", "numpy")
    path = make.write_run(tmp_path / "run", make.one_of_each(), planned=[todo], finished=False)
    run = open_run(path)
    assert run.missing == (todo,)
    assert "was not finished" in render(run)


def test_a_run_without_any_record_opens(make: ModuleType, tmp_path: Path) -> None:
    run = open_run(make.write_run(tmp_path / "run", [], planned=[make.cell("CV-1", "numpy")]))
    assert run.records == ()
    assert "1 of 1 planned" not in render(run)


def test_a_record_cut_short_is_a_problem_and_the_others_stand(copy: Path) -> None:
    path = copy / "records" / "TAB-1.small.numpy.json"
    path.write_text(path.read_text()[:200])
    run = open_run(copy)
    assert len(run.records) == 9
    assert [cell.id for cell in run.missing] == ["TAB-1.small.numpy"]
    assert "cut short" in run.problems[0]
    assert "TAB-1.small.numpy.json" in render(run)


def test_an_unknown_key_in_a_record_is_named(copy: Path) -> None:
    path = copy / "records" / "TAB-1.small.numpy.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "speed": "great"}))
    (problem,) = open_run(copy).problems
    assert "speed" in problem


def test_a_record_of_another_plan_is_not_taken_in(copy: Path) -> None:
    shutil.copy(copy / "records" / "TAB-1.small.numpy.json", copy / "records" / "other.json")
    run = open_run(copy)
    assert len(run.records) == 10
    assert "not a cell of this plan" in run.problems[0]


def test_a_newer_schema_is_refused_with_the_way_out(copy: Path) -> None:
    path = copy / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 99}))
    with pytest.raises(RunDirectoryError, match="install a newer skymark"):
        open_run(copy)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"schema_version": "x"}', "\ufffd" * 10])
def test_a_damaged_manifest_is_a_clear_error(copy: Path, content: str) -> None:
    (copy / "manifest.json").write_text(content)
    with pytest.raises(RunDirectoryError, match=r"manifest\.json"):
        open_run(copy)


def test_deeply_nested_json_is_refused_and_does_no_harm(copy: Path) -> None:
    (copy / "records" / "deep.json").write_text("[" * 200_000)
    (problem,) = open_run(copy).problems
    assert "deep.json" in problem


def test_an_absurdly_large_file_is_not_read(copy: Path) -> None:
    with (copy / "records" / "large.json").open("wb") as file:
        file.truncate(LARGEST_FILE_BYTES + 1)
    (problem,) = open_run(copy).problems
    assert "larger than" in problem


def test_a_directory_that_is_no_run_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="no manifest"):
        open_run(tmp_path)
