"""What a new user reads: every command explains itself, and says so plainly."""

from inspect import cleandoc

import pytest
from cyclopts import App, CycloptsError

from skymark.cli.main import COMMANDS as GROUPS
from skymark.cli.main import app, main
from skymark.references import load_object

FUNCTIONS = {name: entry for group in GROUPS.values() for name, entry in group.items()}
COMMANDS = [
    *([name] for name in FUNCTIONS),
    *(["env", name] for name in ("list", "build", "clean")),
    *(["render", name] for name in ("slurm", "jobset", "aichor", "sky")),
    *(["cache", name] for name in ("plan", "build", "use", "list", "verify", "du", "clean")),
]


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_fits_a_narrow_terminal_and_shows_no_empty_default(words, capsys):
    assert main([*words, "--help"]) == 0
    text = capsys.readouterr().out.replace("--no-follow", "")  # as `sky logs` has it
    assert max(map(len, text.splitlines())) <= 80
    assert "Usage: skymark" in text
    for noise in ("--no-", "--empty-", "[default: ()]", "[default: False]", "[default: None]"):
        assert noise not in text


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_says_what_it_does(words):
    command = app[words[0]] if len(words) == 1 else app[words[0]][words[1]]
    if command.default_command is not None:
        arguments = command.assemble_argument_collection()
        shown = [one for one in arguments if one.show and not one.children]
        silent = [one.name for one in shown if not one.parameter.help]
        assert silent == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_overview_has_the_first_line_of_each_command_s_help(name):
    """It is written down beside the reference, so that the overview loads no command."""
    reference, summary = FUNCTIONS[name]
    found = load_object(f"skymark.cli.{reference}")
    text = found.help if isinstance(found, App) else cleandoc(found.__doc__)
    assert summary == text.splitlines()[0]


def test_a_command_s_own_help_has_its_whole_docstring(capsys):
    assert main(["run", "--help"]) == 0
    assert "Exit status" in capsys.readouterr().out


def test_what_is_measured_is_named_by_options_only():
    with pytest.raises(CycloptsError, match="CV-1"):
        app.parse_args(["run", "CV-1"], exit_on_error=False, print_error=False)


def test_an_option_of_several_values_that_has_none_is_refused():
    with pytest.raises(CycloptsError, match="--adapters"):
        app.parse_args(["plan", "--adapters"], exit_on_error=False, print_error=False)
