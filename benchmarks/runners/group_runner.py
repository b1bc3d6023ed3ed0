"""Run one group on this machine: all data sets and tasks of one model, which is loaded once.

    python -m benchmarks.runners.group_runner --model M --pretrained P --output DIR

Every option that is not told here goes on to the suite's own ``run``, such as ``--datasets`` and
``--tasks``. The same command goes on where an earlier one stopped, as of `full_runner`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.runners import full_runner
from skymark.cli.caller import use_any_output
from skymark.model.errors import UnknownNameError, UsageError
from skymark.suite.registry import suites_with_commands


def read(arguments: Sequence[str] | None = None) -> full_runner.Request:
    """Read a command line; exits with status 2 where an option of the runner's is wrong.

    Raises:
        UsageError: no suite, or several, could be meant.
    """
    parser = argparse.ArgumentParser(
        prog="group_runner",
        description="Run one model on data sets, or go on with it.",
        allow_abbrev=False,
    )
    parser.add_argument("--model", required=True, metavar="M", help="the architecture")
    parser.add_argument(
        "--pretrained", required=True, metavar="P", help="its weights: a tag, or a file"
    )
    parser.add_argument(
        "--suite", help="with words of its own (default: the only one that has them)"
    )
    known, passed_on = parser.parse_known_args(arguments)
    request = full_runner.read([*passed_on, "--models", f"{known.model}:{known.pretrained}"])
    return replace(request, command=(suite_of(known.suite), "run"))


def suite_of(name: str | None) -> str:
    """Return the suite that is meant.

    Raises:
        UsageError: there is none of the name, or several without one.
    """
    names = tuple(one.name for one in suites_with_commands())
    if name is None:
        if len(names) != 1:
            raise UsageError(f"--suite must say which: {', '.join(names) or 'none is installed'}")
        return names[0]
    if name not in names:
        raise UnknownNameError("suite with words of its own", name, names)
    return name


def entry_point(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command line; returns the exit status, as ``skymark run`` has them."""
    return full_runner.carry_out(lambda: read(arguments))


if __name__ == "__main__":
    use_any_output()
    sys.exit(entry_point())
