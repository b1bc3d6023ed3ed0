"""The public functions: lazy, complete, and never replaced by a module of the same name."""

from __future__ import annotations

import ast
import inspect
import json
import os
import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import skymark
from skymark import cloud
from skymark.model.errors import SkymarkError, UsageError
from skymark.model.record import Status
from tests.reference_pages.api import example

FUNCTIONS = ("run", "plan", "open", "compare", "tune", "watch")
HEAVY = {"numpy", "pydantic", "cyclopts", "rich", "pyarrow"}
NOT_HERE = ("skymark.__main__",)
"""Run as a program."""


def test_every_public_name_is_there():
    for name in (*FUNCTIONS, "Work", "Results", "Machine", "Limits", "SkymarkError"):
        assert name in dir(skymark)
        assert getattr(skymark, name) is not None
    assert not hasattr(skymark, "measure_everything")


def test_the_cloud_has_the_names_that_type_checkers_see_and_no_other():
    tree = ast.parse(Path(inspect.getfile(cloud)).read_text())
    seen = {
        name.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skymark.cloud")
        for name in node.names
    }
    assert all(hasattr(cloud, name) for name in seen)
    assert seen == {name for name in dir(cloud) if name not in vars(cloud)}
    assert not hasattr(cloud, "known_names"), "imported by a module of the API"


def test_importing_the_package_loads_no_library():
    listed = "import sys, skymark; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", listed], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not HEAVY & set(loaded)


def test_showing_a_plan_loads_nothing_that_measures_stores_or_rents():
    program = (
        "import sys; from skymark.cli.main import main; main(['plan', '--adapters', 'numpy']);"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    loaded = done.stdout.splitlines()[-1].split()
    others = ("cloud", "measure", "store", "machine.nvidia", "cli.run", "cli.rented_options")
    packages = tuple(f"skymark.{one}" for one in others)
    assert [one for one in loaded if one.startswith(packages)] == []
    assert not {"numpy", "pyarrow", "psutil", "concurrent.futures.process"} & set(loaded)


def test_no_module_replaces_a_public_function():
    for module in pkgutil.iter_modules(skymark.__path__):
        if f"skymark.{module.name}" not in NOT_HERE:
            import_module(f"skymark.{module.name}")
    assert {type(getattr(skymark, name)).__name__ for name in FUNCTIONS} == {"function"}


def test_a_run_is_planned_measured_opened_and_compared_in_a_few_calls(tmp_path):
    work = skymark.Work(scenarios=("TAB-1",), adapters=("numpy",), rounds=1)
    plan = skymark.plan(work)
    results = skymark.Results(output=tmp_path / "run")
    run = skymark.run(plan, results, own_venvs=False)
    assert run.all_well
    assert [one.status for one in run.records] == [Status.OK]
    again = skymark.open(run.directory)
    assert again.records == run.records
    (label,) = again.ranking()
    assert [row.record.cell.adapter for row in again.ranking()[label]] == ["numpy"]
    assert "numpy" in again.table()
    assert "numpy" in again.to_markdown()
    assert again.to_arrow().num_rows == 1
    samples = again.samples(again.records[0].cell.id)
    assert len(samples["round"]) > 0
    assert skymark.compare(run, again).compared == 1


def test_a_tune_tells_its_choice_and_the_request_that_measures_it_again(tmp_path):
    work = skymark.Work(scenarios=("TAB-1:small",), adapters=("numpy",), effort="check")
    where = skymark.Results(output=tmp_path / "tune")
    grid = {"prefetch": [1, 2]}
    choice = skymark.tune(work, step_ms=1, target=0.01, grid=grid, results=where, own_venvs=False)
    assert choice.reaches
    assert choice.settings["prefetch"] in grid["prefetch"]
    assert choice.again.settings == {"think_time_ms": 1, "prefetch": choice.settings["prefetch"]}
    assert json.loads(choice.to_json()) == json.loads((tmp_path / "tune/tune.json").read_text())
    with pytest.raises(SkymarkError, match="add --resume"):
        skymark.tune(work, step_ms=1, grid=grid, results=where, own_venvs=False)


def test_the_page_s_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(example(), {})
    assert capsys.readouterr().out.splitlines()[-1] == "1"


def test_a_stored_run_is_opened_by_its_address():
    run = skymark.open("tests/data/run")
    stored = skymark.open(f"file://{os.path.abspath('tests/data/run')}")  # noqa: PTH100
    assert stored.records == run.records


def test_a_stored_run_is_not_fetched_over_other_files(tmp_path):
    (tmp_path / "file").touch()
    stored = f"file://{os.path.abspath('tests/data/run')}"  # noqa: PTH100
    with pytest.raises(UsageError, match="is not empty"):
        skymark.open(stored, into=tmp_path)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"cache_policy": "shard"}, "'shared'"),
        ({"cache_root": Path("caches")}, "--cache-root .*--cache-policy"),
    ],
)
def test_a_cache_policy_that_there_is_not_is_refused(tmp_path, asked, said):
    work = skymark.Work(scenarios=("TAB-1:tiny",), adapters=("numpy",), rounds=1)
    with pytest.raises(UsageError, match=said):
        skymark.run(work, skymark.Results(output=tmp_path / "run"), own_venvs=False, **asked)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("request_type", [skymark.Work, skymark.Results])
def test_type_checkers_see_every_field_of_a_request(request_type):
    (signature,) = (
        node
        for node in ast.walk(ast.parse(inspect.getsource(request_type)))
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    assert [one.arg for one in signature.args.kwonlyargs] == list(request_type.model_fields)


def test_a_place_without_a_run_is_refused(tmp_path):
    with pytest.raises(SkymarkError):
        skymark.open(tmp_path)


def test_a_new_run_gets_a_directory_in_that_of_its_request(tmp_path):
    work = skymark.Work(scenarios=("TAB-1:tiny",), adapters=("numpy",), rounds=1)
    run = skymark.run(work, skymark.Results(directory=tmp_path / "runs"), own_venvs=False)
    assert run.directory.parent == tmp_path / "runs"
