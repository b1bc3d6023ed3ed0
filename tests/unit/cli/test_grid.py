"""Which runs a grid of settings makes, and what it refuses before anything is queued."""

from __future__ import annotations

import re

import pytest

import skymark
from skymark.cli.grid import points, points_of_job
from skymark.model.errors import UsageError
from skymark.model.requests import Job, Work

ONE_CELL = Work(scenarios=("TAB-1",), adapters=("numpy",))


def test_a_grid_has_a_point_for_each_value_with_a_name_that_tells_it():
    found = points(ONE_CELL, ["workers=1,4,16"])
    assert list(found) == ["workers-1", "workers-4", "workers-16"]
    assert [skymark.plan(one).settings["workers"] for one in found.values()] == [1, 4, 16]


def test_several_grids_make_their_product():
    found = points(ONE_CELL, ["workers=0,2", "think-time-ms=0.5,1"])
    settings = [skymark.plan(one).settings for one in found.values()]
    assert [(one["workers"], one["think_time_ms"]) for one in settings] == [
        (0, 0.5),
        (0, 1),
        (2, 0.5),
        (2, 1),
    ]
    assert next(iter(found)) == "workers-0_think_time_ms-0.5"


def test_a_grid_takes_any_option_of_the_suite_too():
    found = points(ONE_CELL, ["seed=1,2"])
    seeds = [skymark.plan(one).cells[0].cell.specification["seed"] for one in found.values()]
    assert seeds == [1, 2]


def test_the_points_differ_in_the_grid_only():
    shared = Work(scenarios=("TAB-1",), adapters=("numpy",), rounds=2, settings={"prefetch": 3})
    plans = [skymark.plan(one) for one in points(shared, ["workers=1,2"]).values()]
    assert [plan.settings["prefetch"] for plan in plans] == [3, 3]
    assert [plan.effort.max_rounds for plan in plans] == [2, 2]
    assert [plan.cells[0].cell.id for plan in plans] == [plans[0].cells[0].cell.id] * 2
    assert plans[0].hash != plans[1].hash


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        (["nosuch=1,2"], "unknown setting 'nosuch'"),
        (["workrs=1,2"], "workers"),
        (["workers"], "NAME=VALUE,VALUE"),
        (["workers="], "NAME=VALUE,VALUE"),
        (["workers=1,,4"], "NAME=VALUE,VALUE"),
        (["=1,2"], "NAME=VALUE,VALUE"),
        (["workers=1,4,1"], "has a value twice"),
        (["workers=1,01"], "has a value twice"),
        (["workers=1", "workers=2"], "has workers twice"),
        (["workers=-2,1"], "setting workers=-2"),
        (["workers=1,many"], "workers='many': give a whole number"),
        (["format=a/b,a-b"], "called format-a-b"),
    ],
)
def test_a_wrong_grid_is_refused_with_what_is_wrong(grid: list[str], said: str):
    with pytest.raises(UsageError, match=said):
        list(map(skymark.plan, points(ONE_CELL, grid).values()))


def test_a_setting_cannot_be_given_besides_its_grid():
    with pytest.raises(UsageError, match=r"workers .*--grid"):
        points(Work(settings={"workers": 2}), ["workers=1,4"])


def test_a_command_gets_each_point_in_its_places():
    train = Job(words=("python", "t.py", "--lr={lr}", "{batch-size}", "{other}"), name="mine")
    jobs = points_of_job(train, ["lr=0.1,1e-3", "batch-size=8"])
    assert [one.words[2:] for one in jobs] == [
        ("--lr=0.1", "8", "{other}"),
        ("--lr=1e-3", "8", "{other}"),
    ]
    assert [one.name for one in jobs] == ["mine-lr-0.1_batch_size-8", "mine-lr-1e-3_batch_size-8"]


def test_a_yaml_gets_each_point_as_variables():
    jobs = points_of_job(Job(words=("job.yaml",), variables={"A": "1"}), ["LR=0.1,0.2"])
    assert [one.variables for one in jobs] == [{"A": "1", "LR": "0.1"}, {"A": "1", "LR": "0.2"}]


@pytest.mark.parametrize(
    ("words", "grid", "said"),
    [
        (("python", "t.py"), "lr=1,2", "no {lr}, "),
        (("job.yaml",), "l.r=1,2", "of a YAML"),
        (("python", "{lr}"), "lr=1,1", "a value twice"),
        (("python", "{lr}"), "lr=", "NAME=VALUE,VALUE"),
    ],
)
def test_a_grid_that_a_job_has_no_place_for_is_refused(words, grid, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        points_of_job(Job(words=words), [grid])
