"""From what a user types to the candidates of a tune."""

from __future__ import annotations

import re

import pytest

import skymark
from skymark.cli.main import app, main
from skymark.execute.planner import words_of
from skymark.execute.tune import Candidates
from skymark.model.errors import UsageError
from skymark.model.requests import Work
from tests.unit.cli.test_options import parsed

ONE = {"scenarios": ("CV-1:small",), "adapters": ("numpy", "spdl")}


def candidates(cores=4, batch=None, grid=None, **work):
    return Candidates.of(Work(**(ONE | work)), 20.0, batch, grid, cores)


def points(found):
    return [tuple(point.values()) for point, _ in found.points]


def test_workers_go_up_to_the_cores_by_powers_of_two():
    usual = [(0, 2), (1, 2), (1, 4), (2, 2), (2, 4), (4, 2), (4, 4), (6, 2), (6, 4)]
    assert points(candidates(cores=6)) == usual
    assert points(candidates(cores=1)) == [(0, 2), (1, 2), (1, 4)]


def test_a_setting_that_is_given_is_not_tuned():
    assert points(candidates(settings={"workers": 3})) == [(2,), (4,)]
    assert points(candidates(settings={"prefetch": 1})) == [(0,), (1,), (2,), (4,)]


def test_a_grid_is_tried_in_place_of_the_usual_points():
    grid = {"workers": [2, 8], "prefetch": [1, 3]}
    assert points(candidates(grid=grid)) == [(2, 1), (2, 3), (8, 1), (8, 3)]


def test_every_candidate_has_the_step_and_the_batch():
    plan = candidates(batch=32).plan()
    assert len(plan.cells) == 2 * 7
    assert {one.cell.settings["think_time_ms"] for one in plan.cells} == {20.0}
    assert {one.cell.settings["batch_size"] for one in plan.cells} == {32}


def test_the_request_and_the_command_that_measure_a_candidate_again_ask_for_the_same_settings():
    found = candidates(batch=32)
    for planned in found.plan().cells:
        again = found.again(planned.cell)
        (measured,) = skymark.plan(again).cells
        assert measured.cell.adapter == planned.cell.adapter
        assert measured.cell.settings == planned.cell.settings
        assert parsed(*words_of(again)).work() == again


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"settings": {"think_time_ms": 5}}, "--step-ms .*think_time_ms"),
        ({"settings": {"batch_size": 5}, "batch": 5}, "--batch .*batch_size"),
        ({"rounds": 3}, "--rounds"),
        ({"profile": "clip"}, "suite clip .*profile clip"),
        (
            {"grid": {"workers": [1, 2]}, "settings": {"workers": 1}},
            "workers .*--grid",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(options, said):
    with pytest.raises(UsageError, match=said):
        candidates(**options)


def test_the_help_has_no_option_that_a_tune_decides_itself():
    names = {one.name for one in app["tune"].assemble_argument_collection() if one.parse}
    assert {"--data", "--workers", "--step-ms", "--target", "--grid", "--runs"} <= names
    assert not {"--rounds", "--time", "--goal", "--think-time-ms", "--models"} & names


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--effort", "chek"), "'check'"),
        (("--scenarios", "CV-1", "TAB-1"), "these are 2: "),
        (("--data", "./nowhere"), "nowhere"),
        (("--grid", "workers=a,b"), "workers"),
    ],
)
def test_bad_input_is_refused_before_anything_is_measured(
    words, said, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    status = main(["tune", "--adapters", "numpy", "--step-ms", "5", *words])
    assert (status, said in capsys.readouterr().err) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_no_tune_s_is_left_alone(tmp_path, capsys):
    (tmp_path / "file").touch()
    words = ["--scenarios", "TAB-1", "--adapters", "numpy", "--step-ms", "5"]
    assert main(["tune", *words, "--output", str(tmp_path)]) == 2
    assert re.search(f"{tmp_path} .*--resume", capsys.readouterr().err)
