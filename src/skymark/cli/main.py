"""The `skymark` program: its commands, loaded when they are called, and its exit statuses."""

from __future__ import annotations

import gc
import re
import sys
from difflib import get_close_matches
from inspect import cleandoc
from pathlib import Path

from cyclopts import App, CycloptsError, CycloptsPanel, Group, Parameter
from cyclopts.exceptions import MissingArgumentError, UnknownOptionError, UnusedCliTokensError

from skymark import __version__
from skymark.cli.caller import (
    BROKEN_PIPE,
    INTERRUPTED,
    USAGE_ERROR,
    say,
    tell_fault,
    use_any_output,
)
from skymark.cli.sky_words import hand_over, in_own_words, taken_words
from skymark.model.errors import SkymarkError

LIKELY = 0.75
"""Likeness from which on an option is taken for a mistyped one."""
RENTED = "Measure on rented machines"
COMMANDS = {
    "Measure on this machine": {
        "run": "run:run",
        "plan": "run:plan",
        "tune": "tune:tune",
        "list": "listing:listing",
        "env": "venvs:env",
        "cache": "cache:cache",
        "doctor": "doctor:doctor",
    },
    "Use results": {
        "report": "results:report",
        "compare": "results:compare",
        "history": "results:history",
        "site": "results:site",
        "export": "results:export",
        "fetch": "stores:fetch",
    },
    RENTED: {
        "cost": "cost:cost",
        "launch": "launch:launch",
        "exec": "execute:execute",
        "submit": "submit:submit",
        "status": "machines:status",
        "queue": "machines:queue",
        "logs": "machines:logs",
        "cancel": "machines:cancel",
        "collect": "machines:collect",
        "ssh": "machines:ssh",
        "rsync": "machines:rsync",
        "down": "machines:down",
        "rehearse": "rehearse:rehearse",
    },
    "Measure by other schedulers": {
        "render": "render:render",
    },
}
"""Module and function by command, in the groups and the order of help."""


def help_of(module: str, function: str) -> str:
    """Return the help that stands beside a command's function, without importing its module."""
    source = Path(__file__).with_name(f"{module}.py").read_text("utf-8")
    found = re.search(rf'^(?:def )?{function}\b.*?"""(.*?)"""', source, re.DOTALL | re.MULTILINE)
    assert found is not None, f"{module}.{function} has no docstring"
    return cleandoc(found[1])


def shown_default(value: object) -> str | None:
    """Hide the default of options whose default is empty, and shorten numbers."""
    if value in (None, False, ()):
        return None
    return f"{value:g}" if isinstance(value, float) else str(value)


app = App(
    name="skymark",
    help="Compare machine-learning input pipelines and models, with proof that the work was equal.",
    version=__version__,
    default_parameter=Parameter(negative=(), show_default=shown_default),
)
for title, commands in COMMANDS.items():
    group = Group.create_ordered(title)
    for place, (name, reference) in enumerate(commands.items()):
        app.command(
            f"skymark.cli.{reference}",
            name=name,
            help=help_of(*reference.split(":")),
            group=group,
            sort_key=place,
        )
OWN_WORDS = Group.create_ordered("Measure in a suite's own words")


def add_suites(arguments: list[str], app: App = app) -> None:
    """Add the commands of suites, where no other command is named: to look for them takes time."""
    if arguments and any(arguments[0] in commands for commands in COMMANDS.values()):
        return
    from skymark.cli.suite_commands import helps

    for name, help in helps().items():
        if name not in app:
            reference = f"skymark.cli.suite_commands:{name}"
            app.command(reference, name=name, help=help, group=OWN_WORDS)


app["--help"].help = "Show this message, or a command's: skymark run --help."
app["--version"].help = "Show skymark's version."
app["--help"].group = app["--version"].group = Group.create_ordered("Help")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0 every cell ok, skipped or unsupported; 1 some cell failed, timed out or is invalid, or all
    that could run were skipped; 2 bad usage, nothing was started; 3 a gate said no; 130
    interrupted; 141 nobody reads the output. 1, too, where the output cannot be written.
    """
    words = sys.argv[1:] if arguments is None else arguments
    add_suites(words)
    if all(word.startswith("-") for word in words):
        # The overview has one line per command; what reads Markdown takes a sixth of its time.
        app.help_format = "plaintext"
    try:
        result = app(
            in_own_words(words, lambda name: name in app),
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
        sys.stdout.flush()
    except CycloptsError as error:
        tell_usage(error)
        return USAGE_ERROR
    except SkymarkError as error:
        if error.exit_code != BROKEN_PIPE:  # who reads the output has enough
            say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    return result if isinstance(result, int) else 0


def tell_usage(error: CycloptsError) -> None:
    """Print what is wrong with the arguments, which may be anybody's text."""
    from skymark.cli.console import PlainConsole
    from skymark.report.text import without_credentials

    PlainConsole(stderr=True).print(CycloptsPanel(without_credentials(_fault(error))))


def _fault(error: CycloptsError) -> str:
    """Return what is wrong with the arguments, and what to do about it."""
    command = " ".join(("skymark", *(error.command_chain or ())))
    advice = f"`{command} --help` shows its options"
    if isinstance(error, UnknownOptionError):
        option = (error.token.keyword or error.token.value).partition("=")[0]
        known = [name for one in error.argument_collection if one.parse for name in one.names]
        known += taken_words(error.command_chain or ())
        near = get_close_matches(option, known, n=1, cutoff=LIKELY)
        return f"`{command}` has no option {option}; " + (f"try {near[0]}" if near else advice)
    if isinstance(error, UnusedCliTokensError):
        words = " ".join(error.unused_tokens or ())
        if error.command_chain == ("launch",):
            advice = "a command runs with `skymark exec NAME -- COMMAND`, on a machine that is up"
        return f"`{command}` takes no more words: {words}; {advice}"
    if isinstance(error, MissingArgumentError):
        if "CLUSTER" in str(error):
            advice = "`skymark status` shows the names of machines"
        return f"{str(error).rstrip('.')}; {advice}"
    return str(error)


def entry_point() -> None:
    """Run as a program."""
    # A command makes objects and ends: to look for cycles among ten thousand records takes a good
    # part of its time and frees next to nothing.
    gc.set_threshold(200_000, 50, 50)
    sys.excepthook = tell_fault
    use_any_output()
    try:
        hand_over(sys.argv[1:], COMMANDS[RENTED])
    except SkymarkError as error:
        say(str(error))
        sys.exit(error.exit_code)
    sys.exit(main())
