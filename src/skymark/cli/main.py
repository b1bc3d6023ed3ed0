"""The `skymark` program: its commands, loaded when they are called, and its exit statuses."""

from __future__ import annotations

import ast
import gc
import os
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from functools import reduce
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, CycloptsPanel, Group, Parameter
from cyclopts.exceptions import MissingArgumentError, UnknownOptionError, UnusedCliTokensError

from skymark import __version__
from skymark.cli.caller import (
    BROKEN_PIPE,
    INTERRUPTED,
    QUIET,
    USAGE_ERROR,
    VERBOSE,
    is_verbose,
    print_plain,
    say,
    speak_for,
    take_loudness,
    tell_fault,
    use_any_output,
)
from skymark.cli.help import FLAGS, HELP_ALL, asks_for_help, page_of
from skymark.cli.sky_words import hand_over, in_own_words, taken_words
from skymark.model.errors import SkymarkError, UsageError
from skymark.suite.registry import suites_with_commands

LIKELY = 0.75
"""Least likeness of a mistyped option to an option that there is."""
RENTED = "Rent machines"
MANAGED = "Manage rented machines"
COMMANDS = {
    "Measure on this machine": {
        "run": ("run:run", "Measure loaders or models on this machine, and rank them."),
        "plan": ("plan:plan", "Show the measurements that `run` would make, and their time."),
        "watch": ("watch:watch", "Find out what a training loop waits for, and what to change."),
        "tune": ("tune:tune", "Find the loader and settings that feed a GPU with the least CPU."),
        "doctor": (
            "doctor:doctor",
            "Find anything on this machine that would disturb a measurement.",
        ),
    },
    "Use results": {
        "report": ("results:report", "Show a run as a table, and write its report.html."),
        "compare": ("results:compare", "Compare two runs, cell by cell."),
        "history": ("results:history", "Detect performance changes across runs."),
        "site": ("results:site", "Write static web pages about many runs."),
        "export": ("results:export", "Write a run as CSV, Parquet and the like, or into a store."),
        "fetch": ("stores:fetch", "Copy a run from a store into a directory."),
        "schema": ("listing:schema", "Print the JSON Schema of a file or a request."),
    },
    RENTED: {
        "cost": ("cost:cost", "Estimate the price of a run on a rented machine."),
        "launch": ("launch:launch", "Rent a machine, run a profile there, and end the machine."),
        "exec": ("launch:execute", "Run more work, or a command, on a machine that is up."),
        "submit": (
            "submit:submit",
            "Share a plan between workers on a machine, or between managed jobs.",
        ),
        "rehearse": ("rehearse:rehearse", "Try a launch on a simulated machine here, for free."),
    },
    MANAGED: {
        "status": ("machines:status", "List the rented machines and their cost until now."),
        "queue": ("machines:queue", "List the jobs of a machine, the newest first."),
        "logs": ("machines:logs", "Show the output of a job, until it ends."),
        "cancel": ("machines:cancel", "Cancel jobs of a machine; the machine stays."),
        "collect": ("machines:collect", "Copy a run's results from a machine to here."),
        "ssh": ("machines:ssh", "Open a shell on a machine, or run a command there."),
        "rsync": ("machines:rsync", "Copy files from a machine or to it."),
        "down": (
            "machines:down",
            "End machines, and check with their provider that they are gone.",
        ),
    },
    "Measure on a cluster": {
        "render": ("render:render", "Write job files for Slurm, JobSet, AIchor or SkyPilot."),
    },
    "Look up and set up": {
        "list": ("listing:listing", "List scenarios, adapters, profiles, suites or causes."),
        "show": (
            "listing:show",
            "Show the details of a scenario, adapter, profile, suite or cause.",
        ),
        "env": ("venvs:env", "List, build or remove the adapters' Python environments."),
        "cache": ("cache:cache", "Build, list, check or remove caches of data and libraries."),
    },
}
"""Module and function by command with the line of help, in the groups and the order of help."""
NEED_SKYPILOT = frozenset((*COMMANDS[RENTED], *COMMANDS[MANAGED]))
QUESTIONS = (
    ("Which loader is fastest here?", "run"),
    ("Is my loader what slows my training?", "watch"),
    ("Which settings feed my GPU?", "tune"),
    ("What would it cost on a rented machine?", "cost, then launch"),
    ("Did my change make it slower?", "compare, or run --against"),
)
"""The questions that skymark answers, each with its commands. A suite adds its own."""
OF_SUITES = 3
"""The place of suites' questions among them."""
QUESTION = re.compile(r"^(.+\?) +(.+)$", re.MULTILINE)
"""A line of a suite's documentation with the question that a command of it answers."""


def shown_default(value: object) -> str | None:
    """Hide the default of options whose default is empty, and shorten numbers."""
    if value in (None, False, ()):
        return None
    return f"{value:g}" if isinstance(value, float) else str(value)


OVERVIEW = (
    "Compare machine-learning input pipelines and models, with proof that the work was equal."
)
app = App(
    name="skymark",
    help=OVERVIEW,
    help_flags=FLAGS,
    help_format="plaintext",
    version=__version__,
    version_flags=("--version", "-V"),
    default_parameter=Parameter(negative=(), show_default=shown_default),
)
for title, commands in COMMANDS.items():
    group = Group.create_ordered(title)
    for place, (name, (reference, summary)) in enumerate(commands.items()):
        app.command(
            f"skymark.cli.{reference}", name=name, help=summary, group=group, sort_key=place
        )
OWN_WORDS = Group.create_ordered("Measure in a suite's own words")
OF_ALL = Group.create_ordered("Options of every command")
FOR_HELP = (
    "Show this page, or a command's, such as skymark run --help; --help-all: all its options."
)
app["--help"].help = FOR_HELP
app["--version"].help = "Show skymark's version."
app["--help"].group = app["--version"].group = OF_ALL
for names, summary in (
    (QUIET, "Print results and errors only."),
    (VERBOSE, "Print each round too, and the traceback of an error."),
):
    app.command(lambda: 0, name=names, help=summary, group=OF_ALL)


@app.command(
    name="--install-completion",
    help="Complete commands and options in your shell (bash, zsh, fish).",
    group=OF_ALL,
)
def install(
    *,
    shell: Annotated[
        # In the order of cyclopts: Python keeps one union of literals, whatever their order.
        Literal["zsh", "bash", "fish", "powershell"] | None,
        Parameter(help="Your shell. [default: the running shell]"),
    ] = None,
    output: Annotated[
        Path | None, Parameter(help="Write the script into this file, and change no start-up file.")
    ] = None,
) -> int:
    """Complete commands and options in your shell.

    Writes the shell's script, and adds a line to the start-up file of bash and zsh.

    Examples:
      skymark --install-completion
      skymark --install-completion --shell zsh --output ~/.zfunc/_skymark
    """
    from cyclopts.completion.detect import ShellDetectionError

    try:
        written = app.install_completion(shell=shell, output=output, add_to_startup=output is None)
    except ShellDetectionError as error:
        raise UsageError("the shell is not known here; name it, such as --shell bash") from error
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {error.strerror}") from error
    print_plain(f"{written}; start a new shell to use it")
    return 0


def add_suites(arguments: Sequence[str], app: App = app) -> None:
    """Add the commands of suites, unless the words name another command: the search takes time.

    Messages and help of a suite's command name the suite's commands.
    """
    speak_for("")
    if arguments and any(arguments[0] in commands for commands in COMMANDS.values()):
        return
    questions = []
    for entry in suites_with_commands():
        documentation = _documentation(entry)
        questions += QUESTION.findall(documentation)
        if entry.name not in app:
            summary = documentation.partition("\n")[0]
            app.command(entry.value, name=entry.name, help=summary, group=OWN_WORDS)
        if arguments[:1] == [entry.name]:
            speak_for(entry.name, app[entry.name])
    rows = (*QUESTIONS[:OF_SUITES], *questions, *QUESTIONS[OF_SUITES:])
    width = max(len(question) for question, _ in rows)
    lines = (f"  {question:{width}}  skymark {answer}" for question, answer in rows)
    app.help = "\n".join((OVERVIEW, "", "Your question, and the command that answers it:", *lines))


def _documentation(entry: EntryPoint) -> str:
    """Return a module's docstring, without importing the module."""
    spec = find_spec(entry.module)
    if spec is None or spec.origin is None:
        return ""
    return ast.get_docstring(ast.parse(Path(spec.origin).read_text("utf-8"))) or ""


def show_help(words: Sequence[str]) -> list[str]:
    """Prepare the page of the command that words ask for help on, and return plainer words."""
    if words and any(words[0] in commands for commands in COMMANDS.values()):
        command = app[words[0]]
        if command.default_command is not None:
            command.help = None  # of the overview; now the function's docstring counts
    page = page_of(app, words)
    app.help_formatter, app.help_epilogue = page, page.more
    return ["--help" if word == HELP_ALL else word for word in words]


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0: every cell is ok, skipped or unsupported. 1: a cell failed, timed out or is invalid, all
    cells that could run were skipped, or the output cannot be written. 2: bad usage, and nothing
    was started. 3: a gate failed. 130: interrupted. 141: nobody reads the output.
    """
    try:
        words = take_loudness(sys.argv[1:] if arguments is None else arguments)
        add_suites(words)
        console = None
        if asks_for_help(words):
            from skymark.cli.console import PlainConsole

            words, console = show_help(words), PlainConsole()  # as wide as the terminal is now
        result = app(
            in_own_words(words, lambda name: name in app),
            console=console,
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
        sys.stdout.flush()
    except CycloptsError as error:
        tell_usage(error)
        return USAGE_ERROR
    except SkymarkError as error:
        if error.exit_code != BROKEN_PIPE:  # the reader of the output has enough
            if is_verbose():
                tell_fault(type(error), error, error.__traceback__)
            say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # of standard error; `OutputError` is of standard output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
        return BROKEN_PIPE
    return result if isinstance(result, int) else 0


def tell_usage(error: CycloptsError) -> None:
    """Print the fault of the arguments, which may be anybody's text."""
    from skymark.cli.console import PlainConsole
    from skymark.report.text import without_credentials

    PlainConsole(stderr=True).print(CycloptsPanel(without_credentials(_fault(error))))


def _fault(error: CycloptsError) -> str:
    """Return the fault of the arguments, with advice."""
    command = " ".join(("skymark", *(error.command_chain or ())))
    advice = f"`{command} --help` shows its options"
    if isinstance(error, UnknownOptionError):
        option = (error.token.keyword or error.token.value).partition("=")[0]
        known = [name for one in error.argument_collection if one.parse for name in one.names]
        known += taken_words(error.command_chain or ())
        if _has_run(error.command_chain or (), option):
            return f"`{command}` has no option {option}; `{command.removesuffix('plan')}run` has it"
        near = get_close_matches(option, known, n=1, cutoff=LIKELY)
        return f"`{command}` has no option {option}; " + (f"try {near[0]}" if near else advice)
    if isinstance(error, UnusedCliTokensError):
        words = " ".join(error.unused_tokens or ())
        if error.command_chain == ("launch",):
            advice = "`skymark exec NAME -- COMMAND` runs a command on a machine that is up"
        return f"`{command}` has no argument for: {words}; {advice}"
    if isinstance(error, MissingArgumentError):
        if "CLUSTER" in str(error):
            advice = "`skymark status` shows the names"
        return f"{str(error).rstrip('.')}; {advice}"
    return str(error)


def _has_run(chain: Sequence[str], option: str) -> bool:
    """Whether a command is a `plan`, and the `run` beside it has an option."""
    *groups, command = chain or ("",)
    beside = reduce(lambda group, name: group[name], groups, app)
    if command != "plan" or "run" not in beside:
        return False
    return any(option in one.names for one in beside["run"].assemble_argument_collection())


def entry_point() -> None:
    """Run as a program."""
    # A command makes objects and ends: to look for cycles among ten thousand records takes a good
    # part of its time and frees next to nothing.
    gc.set_threshold(200_000, 50, 50)
    sys.excepthook = tell_fault
    use_any_output()
    try:
        hand_over(sys.argv[1:], NEED_SKYPILOT)
    except SkymarkError as error:
        say(str(error))
        sys.exit(error.exit_code)
    sys.exit(main())
