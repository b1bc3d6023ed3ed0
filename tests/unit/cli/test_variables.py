"""--env, --env-file and --secret, read as `sky` reads them."""

from __future__ import annotations

import pytest

from skymark.cli.rented_options import VariableOptions
from skymark.model.errors import UsageError


def test_a_variable_is_given_whole_or_taken_from_the_shell(monkeypatch):
    monkeypatch.setenv("HERE", "from here")
    options = VariableOptions(env=("A=1", "B=x=y", "EMPTY=", "HERE"), secret=("HERE", "KEY=k"))
    assert options.variables() == {"A": "1", "B": "x=y", "EMPTY": "", "HERE": "from here"}
    assert options.secrets() == {"HERE": "from here", "KEY": "k"}


def test_an_option_wins_over_the_file(tmp_path):
    file = tmp_path / "variables"
    file.write_text('# mine\nA="two words"\nexport B=2\n')
    options = VariableOptions(env=("B=3",), env_file=file)
    assert options.variables() == {"A": "two words", "B": "3"}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"env": ("NOT_SET_HERE",)}, "NOT_SET_HERE=VALUE"),
        ({"secret": ("NOT_SET_HERE",)}, "--secret NOT_SET_HERE"),
        ({"env": ("1A=2",)}, "'1A'"),
        ({"env": ("=2",)}, "''"),
    ],
)
def test_what_is_no_variable_is_refused(given, why):
    options = VariableOptions(**given)
    with pytest.raises(UsageError, match=why):
        (options.variables(), options.secrets())


def test_a_refusal_does_not_show_the_key():
    with pytest.raises(UsageError) as refused:
        VariableOptions(secret=("MY-KEY=hidden",)).secrets()
    assert "hidden" not in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="is no file"):
        VariableOptions(env_file=tmp_path / "gone").variables()


def test_a_cache_policy_reaches_the_run_there_as_a_variable():
    options = VariableOptions(env=("A=1",), cache_policy="per-job", cache_root="/mnt/caches")
    assert options.variables() == {
        "A": "1",
        "SKYMARK_CACHE_POLICY": "per-job",
        "SKYMARK_CACHE_ROOT": "/mnt/caches",
    }
    with pytest.raises(UsageError, match=r"--cache-root .*--cache-policy"):
        VariableOptions(cache_root="/mnt").variables()
