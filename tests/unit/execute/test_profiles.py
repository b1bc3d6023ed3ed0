"""Profiles: the ones that come with skymark, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from skymark.execute.planner import load_profile, make_plan, profile_paths
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.requests import Work

LOADER = Path(__file__).with_name("own_loader.py")
GOOD = 'description = "mine"\nsuite = "loading"\nplatform = "cpu"\nscenarios = ["TAB-1"]\n'


def written(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", profile_paths())
def test_every_profile_that_comes_with_skymark_can_be_planned(name):
    profile = load_profile(name)
    assert profile.name == name
    own = (f"{LOADER}:make",) if profile.suite == "own_loader" else ()
    assert make_plan(profile, Work(adapters=own)).runnable


LOADING = [name for name in profile_paths() if load_profile(name).suite == "loading"]


@pytest.mark.parametrize("name", LOADING)
def test_a_scenario_that_is_named_without_a_size_gets_the_profile_s(name):
    profile = load_profile(name)
    assert profile.size is not None
    work = Work(scenarios=("CV-1", "TAB-1:large"), adapters=("numpy",))
    planned = make_plan(profile, work).cells
    assert [one.cell.variant for one in planned] == [profile.size, "large"]


def test_profiles_measure_at_the_size_and_the_effort_that_their_time_has_room_for():
    found = {
        name: (profile.deadline_minutes, profile.size, profile.effort)
        for name in LOADING
        if (profile := load_profile(name))
    }
    rented = dict.fromkeys(("gpu_a100", "gpu_h100", "tpu_v5e"), (30, "long", "rented"))
    assert found == {
        "ci_cpu": (10, "small", "quick"),
        "demo": (10, "small", "quick"),
        "cpu": (45, "medium", "standard"),
        "cluster_8xh100": (45, "long", "rented"),
        **rented,
    }


def test_a_profile_from_a_file_is_named_after_it(tmp_path):
    profile = load_profile(written(tmp_path, GOOD))
    assert profile.name == "mine"
    assert profile.scenarios == ("TAB-1",)
    assert profile.effort == "quick"


def test_an_unknown_profile_names_the_nearest():
    with pytest.raises(UnknownNameError, match="'ci_cpu'"):
        load_profile("ci-cpu")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD + "effrot = 'quick'\n", ["unknown key 'effrot'", "'effort'"]),
        (GOOD + "[setings]\nworkers = 2\n", ["unknown key 'setings'", "'settings'"]),
        ('suite = "loading"\nplatform = "cpu"\nscenarios = []\n', ["description", "required"]),
        (GOOD.replace('suite = "loading"\n', ""), ["suite", "required"]),
        (GOOD + "adapters = 'numpy'\n", ["adapters='numpy': give a list"]),
        (GOOD + "deadline_minutes = 0\n", ["deadline_minutes=0: give 1 or more"]),
        (GOOD + "max_cost_usd = -1\n", ["max_cost_usd=-1: give more than 0"]),
        *(
            (GOOD + f"max_cost_usd = {amount}\n", [f"max_cost_usd={amount}: give a finite number"])
            for amount in ("inf", "nan", "-inf")
        ),
        (GOOD + "max_cost_usd = 0\n", ["max_cost_usd=0: give more than 0"]),
        (GOOD + "[settings\n", ["mine.toml", "mend the file"]),
    ],
)
def test_a_wrong_profile_says_which_key_is_wrong(tmp_path, text, words):
    with pytest.raises(UsageError) as caught:
        load_profile(written(tmp_path, text))
    for word in words:
        assert word in str(caught.value)


def test_a_profile_that_is_no_text_or_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        load_profile(str(tmp_path / "none.toml"))
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="mend the file"):
        load_profile(str(binary))


def test_a_profile_may_have_a_time_and_a_goal(tmp_path):
    profile = load_profile(written(tmp_path, GOOD + 'time = "45m"\ngoal = "best"\n'))
    assert (profile.time, profile.goal) == ("45m", "best")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('time = "soon"', "time 'soon' is no duration"),
        ("time = 45", "time=45: give a text"),
        ('goal = "best"', "goal needs a time"),
        ('time = "45m"\ngoal = "worst"', "goal='worst': give 'table' or 'best'"),
    ],
)
def test_a_wrong_time_or_goal_of_a_profile_is_said(tmp_path, line, words):
    with pytest.raises(UsageError, match=words):
        load_profile(written(tmp_path, f"{GOOD}{line}\n"))
