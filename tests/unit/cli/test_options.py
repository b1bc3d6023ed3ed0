"""From what a user types to a plan."""

from __future__ import annotations

import pytest

from skymark.cli.main import app
from skymark.cli.options import PlanOptions
from skymark.model.errors import UsageError
from skymark.model.option import read_pair


def parsed(*words):
    """The plan options that the command line gives for these words."""
    _, bound, _ = app.parse_args(["plan", *words], exit_on_error=False)
    return bound.arguments.get("options", PlanOptions())


def cells(options):
    return [planned.cell for planned in options.plan().cells]


def test_nothing_typed_is_the_profile_for_continuous_integration():
    options = parsed()
    assert options == PlanOptions()
    plan = options.plan()
    assert (plan.profile, plan.effort.name) == ("ci_cpu", "quick")
    assert plan.settings_from["workers"] == "profile"


def test_several_values_follow_one_flag_or_repeat_it():
    one = parsed("--scenarios", "TAB-1", "NLP-1", "--adapters", "numpy", "Google Grain")
    two = parsed("--scenarios", "TAB-1", "--scenarios", "NLP-1", "--adapters", "numpy", "grain")
    assert one.scenarios == two.scenarios == ("TAB-1", "NLP-1")
    assert [cell.id for cell in cells(one)] == [cell.id for cell in cells(two)]


def test_settings_come_from_their_own_options_and_from_set():
    options = parsed(
        *("--scenarios", "TAB-1", "--adapters", "numpy", "--workers", "0", "--prefetch", "3"),
        *("--think-time-ms", "1.5", "--page-cache", "cold"),
        *("--deliver", "device", "--set", "format=parquet", "batch-size=16", "http_latency_ms=2"),
    )
    (cell,) = cells(options)
    assert cell.settings == {
        "workers": 0,
        "prefetch": 3,
        "think_time_ms": 1.5,
        "page_cache": "cold",
        "deliver": "device",
        "copies": "ahead",
        "format": "parquet",
        "batch_size": 16,
        "http_latency_ms": 2,
    }
    assert set(options.plan().settings_from.values()) == {"command line"}


def test_a_step_has_an_option_of_its_own():
    (cell,) = cells(parsed("--scenarios", "TAB-1", "--adapters", "grain", "--step", "mlp:5"))
    assert cell.settings["step"] == "mlp:5"
    with pytest.raises(UsageError, match="not by both"):
        parsed("--scenarios", "TAB-1", "--step", "mlp:5", "--think-time-ms", "1").plan()


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("False", False), ("3", 3), ("3.0", 3.0), ("1e3", 1000.0), ("3a", "3a")],
)
def test_a_setting_is_read_as_what_it_looks_like(text, value):
    name, found = read_pair(f"some-name={text}")
    assert (name, found, type(found)) == ("some_name", value, type(value))


def test_axis_values_are_separated_by_commas():
    options = parsed("--scenarios", "PC-1", "--adapters", "numpy", "--axis", "depth=10,3")
    assert [cell.axes["depth"] for cell in cells(options)] == [10, 3]


def test_effort_rounds_and_time_limit_bound_the_measuring():
    plan = parsed("--effort", "standard", "--rounds", "2", "--timeout", "7.5").plan()
    effort = plan.effort
    assert (effort.name, effort.min_rounds, effort.max_rounds) == ("standard", 2, 2)
    assert effort.cell_timeout_s == 7.5


@pytest.mark.parametrize("timeout", ["0", "-1", "nan", "inf"])
def test_a_time_limit_that_is_none_is_refused(timeout):
    with pytest.raises(UsageError, match="timeout_s"):
        PlanOptions(timeout=float(timeout)).plan()  # the command line refuses it before


@pytest.mark.parametrize("text", ["format", "=parquet"])
def test_a_setting_without_name_or_value_is_refused(text):
    with pytest.raises(UsageError, match=f"--set '{text}' .*NAME=VALUE"):
        parsed("--set", text).plan()


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--profile", "cpu", "--scenarios", "TAB-1", "NLP-1:medium", "--adapters", "numpy"),
        ("--effort", "standard", "--rounds", "4", "--timeout", "2.5", "--workers", "3"),
        ("--set", "page_cache=cold", "shuffle_buffer=10", "--think-time-ms", "2.5"),
        ("--time", "20m", "--goal", "best"),
        ("--profile", "clip", "--tasks", "zeroshot_retrieval", "--precision", "bf16"),
    ],
    ids=len,
)
def test_options_written_as_words_ask_for_the_same_plan(words):
    options = parsed(*words)
    again = parsed(*options.words())
    assert again.work() == options.work()
