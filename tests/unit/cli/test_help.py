"""Help for a new user: every command explains itself with examples, on about a screen."""

import re
import shlex
from inspect import cleandoc

import pytest
from cyclopts import App, CycloptsError

from skymark.cli.help import FLAGS, HELP_ALL, OF_SUITE, RARE
from skymark.cli.main import COMMANDS as GROUPS
from skymark.cli.main import add_suites, app, main
from skymark.resources import load_object

FUNCTIONS = {name: entry for group in GROUPS.values() for name, entry in group.items()}
GROUPED = {
    "env": ("list", "build", "cloud", "clean"),
    "render": ("slurm", "jobset", "aichor", "sky"),
    "cache": ("plan", "build", "use", "list", "verify", "du", "clean"),
    "clip": ("plan", "run", "submit", "status", "table"),
}
COMMANDS = [
    *([name] for name in FUNCTIONS),
    *([group, name] for group, names in GROUPED.items() for name in names),
]
WITH_EXAMPLES = [words for words in COMMANDS if words[0] not in GROUPED or len(words) == 2]
"""All but groups."""
SCREEN = 62
LONGER = {"launch": 80, "exec": 75, "run": 75, "submit": 85, "clip run": 78, "clip submit": 90}
"""Lines of 80 characters of the help of commands that have more than a screen."""


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def shown(capsys, *words):
    """The help of a command."""
    flag = () if set(FLAGS) & set(words) else ("--help",)
    assert main([*words, *flag]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_fits_a_narrow_terminal_and_shows_no_empty_default(words, capsys):
    for flag in ("--help", HELP_ALL):
        text = shown(capsys, *words, flag).replace("--no-follow", "")  # as `sky logs` has it
        assert max(map(len, text.splitlines())) <= 80
        assert "Usage: skymark" in text
        for noise in ("--no-", "--empty-", "[default: ()]", "[default: False]", "[default: None]"):
            assert noise not in text


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_is_a_screen_long(words, capsys):
    assert len(shown(capsys, *words).splitlines()) <= LONGER.get(" ".join(words), SCREEN)


@pytest.mark.parametrize("words", WITH_EXAMPLES, ids=" ".join)
def test_help_has_two_examples_that_are_understood(words, capsys):
    _, _, rest = shown(capsys, *words).partition("\nExamples:\n")
    examples = re.findall(
        r"^  ((?:sudo \S*)?(?:skymark|make) .+)$", rest.partition("\n\n")[0], re.MULTILINE
    )
    assert len(examples) == 2
    for example in examples:
        _, *typed = shlex.split(example.removeprefix("sudo .venv/bin/"))
        if example != "make cloud":
            assert typed[: len(words)] == words
            add_suites(typed)
            app.parse_args(typed, exit_on_error=False, print_error=False)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_says_what_it_does(words):
    add_suites(words)
    command = app[words[0]] if len(words) == 1 else app[words[0]][words[1]]
    if command.default_command is not None:
        arguments = command.assemble_argument_collection()
        listed = [one for one in arguments if one.show and not one.children]
        silent = [one.name for one in listed if not one.parameter.help]
        assert silent == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_overview_has_the_first_line_of_each_command_s_help(name):
    """It is written down beside the reference, so that the overview loads no command."""
    reference, summary = FUNCTIONS[name]
    found = load_object(f"skymark.cli.{reference}")
    text = found.help if isinstance(found, App) else cleandoc(found.__doc__)
    assert summary == text.splitlines()[0]


def test_the_overview_begins_with_questions_and_the_commands_that_answer_them(capsys):
    text = shown(capsys)
    questions = re.findall(r"^  (\S.*\?) +skymark (.+)$", text, re.MULTILINE)
    assert [
        [word for word in answer.replace(",", "").split() if word in app] for _, answer in questions
    ] == [["run"], ["watch"], ["tune"], ["clip", "run"], ["cost", "launch"], ["compare", "run"]]
    assert main([]) == 0
    assert capsys.readouterr().out == text


def test_the_overview_has_one_line_for_each_command(capsys):
    lines = shown(capsys).splitlines()
    for name, (_, summary) in FUNCTIONS.items():
        assert [line.split() for line in lines].count([name, *summary.split()]) == 1


def test_a_command_s_own_help_has_its_whole_docstring(capsys):
    assert "Exit status" in shown(capsys, "run")


def test_rare_options_are_counted_and_shown_on_demand(capsys):
    arguments = [one for one in app["run"].assemble_argument_collection() if one.show]
    groups = {one.name: {group.name for group in one.parameter.group} for one in arguments}
    loading = f"{OF_SUITE}loading"
    of_suites = {
        name: {one for one in found if one.startswith(OF_SUITE)} for name, found in groups.items()
    }
    own = {
        name: found
        for name, found in groups.items()
        if name.startswith("--") and (not of_suites[name] or loading in of_suites[name])
    }
    rare = {name for name, found in own.items() if RARE.name in found}
    assert {"--rank", "--rounds", "--cache-policy", "--prefetch"} <= rare
    brief, whole = shown(capsys, "run"), shown(capsys, "run", HELP_ALL)
    assert options_in(brief) == set(own) - rare
    assert options_in(whole) == set(own)
    assert re.search(rf"\n{len(rare)} .*: skymark run --help-all\n\Z", brief)
    assert HELP_ALL not in whole


def options_in(page):
    return set(re.findall(r"^  (--[\w-]+)", page, re.MULTILINE))


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--profile", "clip_8xh100"),
        ("run", "--profile=clip"),
        ("launch", "clip_8xh100"),
        ("render", "slurm", "clip"),
        ("clip", "run"),
    ],
    ids=" ".join,
)
def test_help_has_the_options_of_the_profile_s_suite_and_of_no_other(words, capsys):
    options = options_in(shown(capsys, *words, HELP_ALL))
    assert {"--tasks", "--precision", "--skip-damaged"} <= options
    assert options.isdisjoint({"--axis", "--prefetch", "--deliver"})


@pytest.mark.parametrize(
    "words", [("run",), ("run", "--profile", "none"), ("cost", "cpu"), ("tune",)], ids=" ".join
)
def test_help_has_the_options_of_the_default_suite_where_no_other_is_named(words, capsys):
    options = options_in(shown(capsys, *words, HELP_ALL))
    assert {"--axis", "--prefetch", "--skip-damaged"} <= options
    assert options.isdisjoint({"--tasks", "--precision"})


def test_what_is_measured_is_named_by_options_only():
    with pytest.raises(CycloptsError, match="CV-1"):
        app.parse_args(["run", "CV-1"], exit_on_error=False, print_error=False)


def test_an_option_of_several_values_that_has_none_is_refused():
    with pytest.raises(CycloptsError, match="--adapters"):
        app.parse_args(["plan", "--adapters"], exit_on_error=False, print_error=False)
