"""From a profile and the command line to a plan."""

from __future__ import annotations

import pytest

from skymark.execute.planner import load_profile, make_plan
from skymark.model.effort import LEAST_ROUNDS, MOST_ROUNDS, Allotment
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.plan import Profile
from skymark.model.requests import Work
from skymark.suite.registry import suite_named

PROFILE = Profile(
    name="test",
    description="for tests",
    suite="loading",
    platform="gpu",
    scenarios=("TAB-1", "NLP-1"),
    adapters=("numpy", "pytorch"),
    effort="standard",
    settings={"workers": 2, "prefetch": 4},
)


EFFORTS = suite_named("loading").efforts


def ids(plan):
    return [planned.cell.id for planned in plan.cells]


def test_a_profile_alone_is_a_plan():
    plan = make_plan(PROFILE, Work())
    assert ids(plan) == [
        "loading.TAB-1.small.numpy",
        "loading.TAB-1.small.pytorch",
        "loading.NLP-1.small.numpy",
        "loading.NLP-1.small.pytorch",
    ]
    assert (plan.suite, plan.profile, plan.platform) == ("loading", "test", "gpu")
    assert plan.effort == EFFORTS["standard"]
    assert plan.settings == {"workers": 2, "prefetch": 4}
    assert plan.settings_from == {"workers": "profile", "prefetch": "profile"}


def test_the_command_line_goes_over_the_profile_name_by_name():
    work = Work(scenarios=("TAB-1",), adapters=("numpy",), settings={"workers": 0}, effort="quick")
    plan = make_plan(PROFILE, work)
    assert ids(plan) == ["loading.TAB-1.small.numpy"]
    assert plan.effort == EFFORTS["quick"]
    assert plan.settings == {"workers": 0, "prefetch": 4}
    assert plan.settings_from == {"workers": "command line", "prefetch": "profile"}
    assert plan.cells[0].cell.settings == {"workers": 0, "prefetch": 4}


def test_rounds_bound_the_effort_from_both_sides():
    effort = make_plan(PROFILE, Work(effort="rigorous", rounds=2)).effort
    assert (effort.min_rounds, effort.max_rounds) == (2, 2)
    assert effort.limits == EFFORTS["rigorous"].limits


def test_a_time_limit_bounds_the_guesses_too():
    plan = make_plan(PROFILE, Work(effort="quick", timeout_s=7.5))
    assert plan.effort.cell_timeout_s == 7.5
    assert {planned.guess.high_s for planned in plan.cells} == {7.5}


def test_a_time_and_its_goal_are_the_plan_s_and_the_command_line_goes_over_the_profile():
    timed = PROFILE.model_copy(update={"time": "45m", "goal": "best"})
    assert make_plan(PROFILE, Work()).allotment is None
    assert make_plan(timed, Work()).allotment == Allotment(time_s=2700, goal="best")
    assert make_plan(timed, Work(time="1m")).allotment.time_s == 60
    assert make_plan(timed, Work(goal="table")).allotment.goal == "table"
    assert make_plan(timed, Work(rounds=4)).allotment is None


def test_within_a_time_a_cell_has_three_rounds_or_more_and_no_few_most():
    plan = make_plan(PROFILE, Work(effort="check", time="10m"))
    assert plan.effort == EFFORTS["check"]
    assert (plan.bounds.min_rounds, plan.bounds.max_rounds) == (LEAST_ROUNDS, MOST_ROUNDS)
    assert make_plan(PROFILE, Work(effort="rigorous", time="10m")).bounds.min_rounds == 10
    assert make_plan(PROFILE, Work()).bounds == EFFORTS["standard"]


def test_a_run_may_be_continued_with_another_time():
    hashes = {make_plan(PROFILE, Work(time=time)).hash for time in (None, "1m", "2m")}
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"time": "soon"}, "--time 'soon' is no duration"),
        ({"time": "0s"}, "--time '0s' is no duration"),
        ({"time": "0"}, "such as 90m"),
        ({"time": "1m", "rounds": 3}, "--rounds 3 "),
        ({"goal": "best", "rounds": 3}, "--rounds 3 "),
        ({"goal": "best"}, "--goal best needs --time"),
    ],
)
def test_times_and_goals_that_mean_nothing_are_refused(given, words):
    with pytest.raises(UsageError, match=words):
        make_plan(PROFILE, Work(**given))


def test_a_time_is_refused_where_nothing_varies():
    with pytest.raises(UsageError, match=r"--time .*\bclip\b"):
        make_plan(load_profile("clip"), Work(time="1m"))


def test_no_round_at_all_is_refused():
    with pytest.raises(UsageError, match="rounds=0: "):
        make_plan(PROFILE, Work(rounds=0))


def test_unknown_efforts_and_suites_name_the_nearest():
    with pytest.raises(UnknownNameError, match="'rigorous'"):
        make_plan(PROFILE, Work(effort="rigourous"))
    with pytest.raises(UnknownNameError, match="'loading'"):
        make_plan(PROFILE.model_copy(update={"suite": "laoding"}), Work())


def test_a_plan_without_cells_is_refused(monkeypatch):
    monkeypatch.setattr(
        "skymark.suites.loading.suite.LoadingSuite.plan", lambda self, selection, effort: []
    )
    with pytest.raises(UsageError, match="no cell"):
        make_plan(PROFILE, Work())
