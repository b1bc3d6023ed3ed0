"""SkyPilot's words on skymark's command line: taken, or answered with what to type."""

from __future__ import annotations

import pytest

from skymark.cli.main import app, main
from skymark.cli.sky_words import COMMANDS, DONE_ANYWAY, OPTIONS, in_own_words
from skymark.model.errors import UsageError

TAKEN = [
    (command, option, answer)
    for command, answers in OPTIONS.items()
    for option, answer in answers.items()
    if answer == DONE_ANYWAY or answer.startswith("-")
]
ANSWERED = [
    (command, option)
    for command, answers in OPTIONS.items()
    for option, answer in answers.items()
    if (command, option, answer) not in TAKEN
]


def own(*words):
    return in_own_words(words, lambda name: name in app)


@pytest.fixture
def refused(capsys):
    def refused(*arguments):
        assert main([*arguments]) == 2
        said = capsys.readouterr().err.replace("│", " ")
        return " ".join(said.split())

    return refused


@pytest.mark.parametrize(("command", "option", "answer"), TAKEN)
def test_a_word_that_is_taken_becomes_ours_or_goes(command, option, answer):
    expected = [command, "box", *([answer] if answer else []), "x"]
    assert own(command, "box", option, "x") == expected
    if answer:
        assert own(command, "box", f"{option}=x") == [command, "box", f"{answer}=x"]


@pytest.mark.parametrize(("command", "option"), ANSWERED)
def test_a_word_that_is_not_taken_is_answered(refused, command, option):
    said = refused(command, "box", option, "x")
    assert f"`skymark {command}` has no {option}; " in said
    assert "{" not in said


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_not_ours_is_answered(refused, command):
    said = refused(*command.split(), "x")
    assert f"`{command}`; " in said
    assert "{" not in said


def test_words_of_a_command_behind_the_dashes_stay_its_own():
    words = ["exec", "box", "-y", "--", "train", "-y", "--use-spot", "--cpus", "4"]
    assert own(*words) == ["exec", "box", *words[3:]]


def test_a_suite_s_submit_takes_the_same_words():
    assert own("clip", "submit", "--use-spot") == ["clip", "submit", "--spot"]
    with pytest.raises(UsageError, match=r"clip submit` .*--cpus"):
        own("clip", "submit", "--cpus", "4")


@pytest.mark.parametrize("command", ["launch", "cost"])
def test_a_yaml_in_the_place_of_a_profile_names_the_option_for_it(refused, command):
    said = refused(command, "my.yaml")
    assert said.rstrip().endswith(" --machine my.yaml")


def test_a_command_in_launch_is_sent_to_exec(refused):
    assert "skymark exec NAME -- COMMAND" in refused("launch", "cpu", "python", "x.py")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("launch", "cpu", "--use-spt"),
            "`skymark launch` has no option --use-spt; try --use-spot",
        ),
        (("run", "--worker", "3"), "try --workers"),
        (("launch", "cpu", "--foo"), "`skymark launch --help` shows its options"),
        (("exec", "box", "--foo=3"), "`skymark exec` has no option --foo; "),
        (("queue",), "`skymark status` shows the names"),
        (("launch",), "`skymark launch --help` shows its options"),
    ],
)
def test_an_unknown_option_names_one_that_is_near_or_where_all_are(refused, words, said):
    assert said in refused(*words)


@pytest.mark.parametrize(
    "words",
    [
        *(("clip", "submit", "--managed", "--dry-run", "--store", "s3://bucket/runs"),),
        *(("submit", "--managed", "--dry-run", "--store", "s3://bucket/runs"),),
        *(("launch", "cpu", "--dry-run"), ("launch", "cpu", "--managed", "--dry-run")),
        *(("cost", "cpu", "--gpus", "A100:1"), ("exec", "box", "--", "true"), ("status",)),
        *(("queue", "box"), ("logs", "box"), ("cancel", "box", "--all"), ("down", "skymark-box")),
        *(("collect", "box"), ("clip", "submit", "--cluster", "box")),
    ],
    ids=" ".join,
)
def test_without_skypilot_each_command_says_how_to_get_it(refused, words, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said = refused(*words)
    assert "make cloud" in said
