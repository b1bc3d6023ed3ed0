"""The `skymark` program: its commands, loaded when they are called, and its exit statuses."""

from __future__ import annotations

import ast
import gc
import sys
from difflib import get_close_matches
from importlib.metadata import EntryPoint
from importlib.util import find_spec
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
from skymark.suite.registry import suites_with_commands

LIKELY = 0.75
"""Likeness from which on an option is taken for a mistyped one."""
RENTED = "Measure on rented machines"
COMMANDS = {
    "Measure on this machine": {
        "run": (
            "run:run",
            "Measure scenarios × adapters on this machine.",
        ),
        "plan": (
            "run:plan",
            "Show what `run` would measure, and about how long it would take.",
        ),
        "tune": (
            "tune:tune",
            "Find the library and the settings that keep an accelerator fed at the least CPU.",
        ),
        "list": (
            "listing:listing",
            "List scenarios, adapters, profiles, suites or causes, a line each.",
        ),
        "show": (
            "listing:show",
            "Show the details of a scenario, adapter, profile, suite or cause.",
        ),
        "env": (
            "venvs:env",
            "List, build or remove the adapters' venvs.",
        ),
        "cache": (
            "cache:cache",
            "Keep the caches of many jobs apart, or build one for all; list, verify and clean.",
        ),
        "doctor": (
            "doctor:doctor",
            "Tell what would disturb a measurement on this machine, and what to do about it.",
        ),
    },
    "Use results": {
        "report": (
            "results:report",
            "Show a run as a table and write its report.html anew.",
        ),
        "compare": (
            "results:compare",
            "Compare two runs, cell by cell.",
        ),
        "history": (
            "results:history",
            "Show where the level of each cell changed over runs, in a step or by and by.",
        ),
        "site": (
            "results:site",
            "Write pages of many runs that need neither a server nor a network.",
        ),
        "export": (
            "results:export",
            "Write a run's figures as CSV, Parquet or another format, or the run into a store.",
        ),
        "fetch": (
            "stores:fetch",
            "Bring a run from a store into a directory that `report` and `compare` read.",
        ),
        "schema": ("schema:schema", "Print the JSON Schema of a file or a request."),
    },
    RENTED: {
        "cost": (
            "cost:cost",
            "Estimate what a profile would cost on a rented machine, before anything is rented.",
        ),
        "launch": (
            "launch:launch",
            "Run a profile on a rented machine: price first, results home, machine gone.",
        ),
        "exec": (
            "execute:execute",
            "Run other scenarios, a YAML or a command on a machine that is there, without set-up.",
        ),
        "submit": (
            "submit:submit",
            "Submit a plan to a machine that is there, or to several that are hired for it.",
        ),
        "status": (
            "machines:status",
            "List the machines that are running, and what they cost; asks their providers.",
        ),
        "queue": (
            "machines:queue",
            "List a machine's jobs, the newest first.",
        ),
        "logs": (
            "machines:logs",
            "Show a job's output from its beginning, until it ends.",
        ),
        "cancel": (
            "machines:cancel",
            "Take jobs out of a machine's queue, or end them; the machine stays.",
        ),
        "collect": (
            "machines:collect",
            "Bring the results of a run home from a machine that was left running or kept.",
        ),
        "ssh": (
            "machines:ssh",
            "Open a shell on a machine, or run a command there: skymark ssh NAME -- nvidia-smi.",
        ),
        "rsync": (
            "machines:rsync",
            "Copy files from a machine or to one: skymark rsync CLUSTER:PATH DIRECTORY.",
        ),
        "down": (
            "machines:down",
            "End machines, and return when their provider's own list has none of them left.",
        ),
        "rehearse": (
            "rehearse:rehearse",
            "Do all that `launch` does on a machine simulated here, for nothing.",
        ),
    },
    "Measure by other schedulers": {
        "render": (
            "render:render",
            "Write job files for Slurm, JobSet, AIchor or SkyPilot.",
        ),
    },
}
"""Module and function by command with the line of help, in the groups and the order of help."""


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
    for place, (name, (reference, summary)) in enumerate(commands.items()):
        app.command(
            f"skymark.cli.{reference}", name=name, help=summary, group=group, sort_key=place
        )
OWN_WORDS = Group.create_ordered("Measure in a suite's own words")


def add_suites(arguments: list[str], app: App = app) -> None:
    """Add the commands of suites, where no other command is named: to look for them takes time."""
    if arguments and any(arguments[0] in commands for commands in COMMANDS.values()):
        return
    for entry in suites_with_commands():
        if entry.name not in app:
            app.command(entry.value, name=entry.name, help=first_line(entry), group=OWN_WORDS)


def first_line(entry: EntryPoint) -> str:
    """Return the first line of a module's docstring, without importing the module."""
    spec = find_spec(entry.module)
    if spec is None or spec.origin is None:
        return ""
    documentation = ast.get_docstring(ast.parse(Path(spec.origin).read_text("utf-8")))
    return (documentation or "").partition("\n")[0]


def show_whole_help(name: str) -> None:
    """Let a command's own help be its function's docstring, in place of the line in the overview.

    The overview imports no command.
    """
    if any(name in commands for commands in COMMANDS.values()):
        command = app[name]
        if command.default_command is not None:
            command.help = None


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
    if words:
        show_whole_help(words[0])
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
