"""Plans as files, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skymark.execute.planner import load_profile, make_plan, plan_text, read_plan, write_plan
from skymark.model.errors import RunDirectoryError, UsageError
from skymark.model.requests import Work
from skymark.rundir.reader import read_manifest


@pytest.fixture(scope="module")
def plan():
    work = Work(scenarios=("TAB-1",), adapters=("numpy", "grain"), settings={"workers": 0})
    return make_plan(load_profile("ci_cpu"), work)


def test_a_plan_that_was_written_reads_back_as_the_same_plan(tmp_path, plan):
    path = tmp_path / "plans" / "plan.json"
    write_plan(plan, path)
    assert path.read_text() == plan_text(plan)
    found = read_plan(path)
    assert (found, found.hash) == (plan, plan.hash)


def test_the_directory_of_a_run_has_its_plan():
    run = Path(__file__).parents[2] / "data" / "run"
    assert read_plan(run) == read_manifest(run).plan


def test_a_directory_that_is_no_run_has_no_plan(tmp_path):
    with pytest.raises(RunDirectoryError, match="is no run"):
        read_plan(tmp_path)


def changed(plan, **update):
    """The content of a plan's file with some of it changed."""
    return json.dumps(json.loads(plan_text(plan)) | update)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (lambda plan: "{not json", "not JSON"),
        (lambda plan: "\xff\x00", "not JSON"),
        (lambda plan: "[" * 100_000, "not JSON"),
        (lambda plan: "[1, 2]", "is no plan; `skymark plan --output FILE` writes one"),
        (lambda plan: '{"run_id": "x"}', "is no plan; "),
        (lambda plan: changed(plan, schema_version=99), r"newer skymark \(schema 99\b"),
        (lambda plan: changed(plan, schema_version=2), r"earlier skymark \(schema 2\b"),
        (lambda plan: changed(plan, colour="red"), "no whole plan: colour: "),
        (lambda plan: changed(plan, effort=None), "no whole plan: effort: "),
        (lambda plan: changed(plan, cells=[]), "no whole plan: .*no cell"),
        (
            lambda plan: changed(plan, cells=json.loads(plan_text(plan))["cells"][:1] * 2),
            "no whole plan: .*twice",
        ),
        (lambda plan: changed(plan, suite="lading"), "unknown suite 'lading'.*'loading'.*install"),
    ],
)
def test_a_file_that_is_no_plan_to_run_says_why_and_what_to_do(tmp_path, plan, content, words):
    path = tmp_path / "plan.json"
    path.write_text(content(plan), "latin-1")
    with pytest.raises(UsageError, match=words) as caught:
        read_plan(path)
    assert "plan.json" in str(caught.value)


def test_a_plan_with_cells_of_another_suite_is_refused(tmp_path, plan):
    content = json.loads(plan_text(plan))
    content["cells"][0]["cell"]["suite"] = "sorting"
    (tmp_path / "plan.json").write_text(json.dumps(content))
    with pytest.raises(UsageError, match=r"'loading'.* sorting"):
        read_plan(tmp_path / "plan.json")


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path, plan):
    with pytest.raises(UsageError, match=r"cannot read .*none\.json: "):
        read_plan(tmp_path / "none.json")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write"):
        write_plan(plan, tmp_path / "file" / "plan.json")
