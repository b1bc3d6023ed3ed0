"""From a profile and the command line to a plan."""

from __future__ import annotations

import pytest

from skymark.execute.planner import make_plan
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.plan import Profile, Selection
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
    plan = make_plan(PROFILE, Selection())
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
    chosen = Selection(scenarios=("TAB-1",), adapters=("numpy",), settings={"workers": 0})
    plan = make_plan(PROFILE, chosen, effort="quick")
    assert ids(plan) == ["loading.TAB-1.small.numpy"]
    assert plan.effort == EFFORTS["quick"]
    assert plan.settings == {"workers": 0, "prefetch": 4}
    assert plan.settings_from == {"workers": "command line", "prefetch": "profile"}
    assert plan.cells[0].cell.settings == {"workers": 0, "prefetch": 4}


def test_rounds_bound_the_effort_from_both_sides():
    effort = make_plan(PROFILE, Selection(), effort="rigorous", rounds=2).effort
    assert (effort.min_rounds, effort.max_rounds) == (2, 2)
    assert effort.limits == EFFORTS["rigorous"].limits


def test_a_time_limit_bounds_the_guesses_too():
    plan = make_plan(PROFILE, Selection(), effort="quick", timeout_s=7.5)
    assert plan.effort.cell_timeout_s == 7.5
    assert {planned.guess.high_s for planned in plan.cells} == {7.5}


def test_no_round_at_all_is_refused():
    with pytest.raises(UsageError, match="--rounds 0 must be at least 1"):
        make_plan(PROFILE, Selection(), rounds=0)


def test_unknown_efforts_and_suites_name_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'rigorous'"):
        make_plan(PROFILE, Selection(), effort="rigourous")
    with pytest.raises(UnknownNameError, match="Did you mean 'loading'"):
        make_plan(PROFILE.model_copy(update={"suite": "laoding"}), Selection())


def test_a_plan_without_cells_is_refused(monkeypatch):
    monkeypatch.setattr(
        "skymark.suites.loading.suite.LoadingSuite.plan", lambda self, selection, effort: []
    )
    with pytest.raises(UsageError, match="no cell"):
        make_plan(PROFILE, Selection())
