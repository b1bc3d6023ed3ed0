"""Run directories: whole, half, damaged, hostile."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from skymark.model.errors import RunDirectoryError
from skymark.model.record import SCHEMA_VERSION, Status
from skymark.model.schema import seal, unsealed
from skymark.plain_files import LARGEST_FILE_BYTES
from skymark.report.html import render
from skymark.rundir.reader import Run, open_run
from tests.data import make_run

SAVED = Path(__file__).parents[2] / "data" / "run"
NUMPY = "loading.TAB-1.small.numpy"


@pytest.fixture
def saved() -> Run:
    """A saved run."""
    return open_run(SAVED)


@pytest.fixture
def copy(saved: Run, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved.directory, tmp_path / "run"))


def file_of_numpy(run: Path) -> Path:
    """The record of a cell."""
    return run / "records" / f"{NUMPY}.json"


def test_a_saved_run_opens_whole(saved: Run) -> None:
    assert saved.manifest.schema_version == SCHEMA_VERSION
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


def test_a_run_tells_the_metrics_that_it_is_read_by(saved: Run) -> None:
    assert saved.declaration.primary == "samples_per_s"
    assert saved.declaration.scenario_title("TAB-1")
    shown = {one.name for one in saved.declaration.metrics}
    assert all(set(record.metrics) <= shown for record in saved.records)


def test_a_run_explains_itself_where_its_suite_is_not_installed(copy: Path) -> None:
    path = copy / "manifest.json"
    path.write_bytes(seal(unsealed(path.read_bytes()).decode().replace('"loading"', '"brewing"')))
    run = open_run(copy)
    assert run.manifest.plan.suite == "brewing"
    assert run.declaration.primary == "samples_per_s"


def test_records_that_are_known_are_not_read_again(copy: Path) -> None:
    before = open_run(copy)
    today = copy / "records" / f"{NUMPY}.json"
    file_of_numpy(copy).rename(today)
    today.write_text("damaged meanwhile")
    assert open_run(copy, before.records).by_id[NUMPY] == before.by_id[NUMPY]
    assert [cell.id for cell in open_run(copy).missing] == [NUMPY]


def test_records_are_grouped_by_what_they_measure(saved: Run) -> None:
    groups = saved.by_label()
    assert list(groups) == ["TAB-1:small", "PC-1:small depth=5"]
    assert len(groups["TAB-1:small"]) == 8


def test_an_interrupted_run_opens_with_what_it_has(tmp_path: Path) -> None:
    todo = make_run.cell("CV-1", "numpy")
    path = make_run.write_run(
        tmp_path / "run", make_run.one_of_each(), planned=[todo], finished=False
    )
    run = open_run(path)
    assert run.missing == (todo,)
    assert "was not finished" in render(run)


def test_a_run_without_any_record_opens(tmp_path: Path) -> None:
    run = open_run(
        make_run.write_run(tmp_path / "run", [], planned=[make_run.cell("CV-1", "numpy")])
    )
    assert run.records == ()
    assert "1 of 1 planned" not in render(run)


def test_a_record_cut_short_is_a_problem_and_the_others_stand(copy: Path) -> None:
    path = file_of_numpy(copy)
    path.write_text(path.read_text()[:200])
    run = open_run(copy)
    assert len(run.records) == 9
    assert [cell.id for cell in run.missing] == [NUMPY]
    assert "cut short" in run.problems[0]
    assert "TAB-1.small.numpy.json" in render(run)


def test_an_unknown_key_in_a_record_is_named(copy: Path) -> None:
    path = file_of_numpy(copy)
    path.write_bytes(seal(json.dumps({**json.loads(unsealed(path.read_bytes())), "speed": 3})))
    (problem,) = open_run(copy).problems
    assert "speed" in problem


def test_a_record_of_another_plan_is_not_taken_in(copy: Path) -> None:
    shutil.copy(file_of_numpy(copy), copy / "records" / "other.json")
    run = open_run(copy)
    assert len(run.records) == 10
    assert run.problems[0].startswith(f"records/other.json: holds {NUMPY}, ")


def test_a_record_under_the_name_of_another_cell_is_not_taken_in(copy: Path) -> None:
    file = file_of_numpy(copy)
    shutil.copy(file, file.with_name(file.name.replace("numpy", "grain")))
    run = open_run(copy)
    assert [cell.id for cell in run.missing] == ["loading.TAB-1.small.grain"]
    assert f"holds {NUMPY}" in run.problems[0]


@pytest.mark.parametrize("version", [2, 99])
def test_another_schema_is_refused_with_file_number_and_way_out(copy: Path, version: int) -> None:
    path = copy / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": version}))
    told = rf"manifest\.json: .*schema version {version}, .* {SCHEMA_VERSION}; "
    with pytest.raises(RunDirectoryError, match=told):
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
