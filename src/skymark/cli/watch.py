"""`skymark watch`: what a training program's loop waits for, while the program runs as it is."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from skymark.cli.caller import note, print_json, say
from skymark.cli.parameters import COUNT, DIRECTORY, FILE, HOW, RESULTS, WHAT
from skymark.cli.tables import Json
from skymark.model.errors import UsageError
from skymark.plain_files import write_whole
from skymark.watching.program import Watch, copy_package, watch_program
from skymark.watching.verdict import LoopVerdict

NOT_STARTED = {FileNotFoundError: 127, PermissionError: 126}
"""Exit statuses of a shell for a program that cannot be started."""
BY_SIGNAL = 128
"""Added to a signal's number, as a shell does."""


def watch(
    *command: Annotated[
        str,
        Parameter(group=WHAT, help="The program and its arguments, after --."),
    ],
    batches: Annotated[
        int | None,
        COUNT,
        Parameter(group=HOW, help="Batches after which the watch ends; the program goes on."),
    ] = None,
    trace: Annotated[
        Path | None,
        FILE,
        Parameter(group=RESULTS, help="File for a trace of waits and steps in Chrome's format."),
    ] = None,
    output: Annotated[
        Path | None,
        DIRECTORY,
        Parameter(group=RESULTS, help="Directory for a page, verdict.html, and verdict.json."),
    ] = None,
    copy: Annotated[
        Path | None,
        DIRECTORY,
        Parameter(
            group=RESULTS,
            help="Write the watch alone into a directory, for a Python without skymark.",
        ),
    ] = None,
    json: Annotated[Json, Parameter(group=RESULTS)] = False,
) -> int:
    """Find out what a training loop waits for, and what to change.

    Runs a program as it is. It prints the same, and its random numbers and batches stay the same.
    The verdict follows on standard error; --json prints it as the last line of standard output.
    In a program of your own, `for batch in skymark.watch(loader)` does the same.

    Examples:
      skymark watch -- python train.py --epochs 1
      skymark watch --batches 500 -- torchrun --nproc-per-node 8 train.py

    Exit status: the program's own; 128 and its number for a signal; 2 nothing was started; 126 or
    127 the program cannot be started.
    """
    if copy is not None:
        return _copy(copy, command)
    if not command:
        raise UsageError("name a program after --, such as skymark watch -- python train.py")

    def tell(watched: Watch) -> None:
        _tell(watched, output, as_json=json)

    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    try:
        watched = watch_program(
            command, batches, str(trace) if trace else None, tell=tell, meanwhile=_meanwhile
        )
    except (FileNotFoundError, PermissionError) as error:
        say(f"{command[0]} cannot be started: {error.strerror}")
        return NOT_STARTED[type(error)]
    return watched.status if watched.status >= 0 else BY_SIGNAL - watched.status


def _copy(folder: Path, command: tuple[str, ...]) -> int:
    """Write the package into a folder."""
    if command:
        raise UsageError("--copy runs no program; leave the command out")
    copy_package(str(folder))
    note(
        f"PYTHONPATH={folder} has the watch now; in your program: "
        "from skymark.watching import watch; for batch in watch(loader): ..."
    )
    return 0


def _tell(watched: Watch, output: Path | None, *, as_json: bool) -> None:
    """Print a verdict, or the reason why there is none."""
    if watched.verdict is None:
        say(
            "the program looped over no known loader; try skymark.watch(loader) in it, or in Keras "
            "steps_per_execution=1"
            if watched.has_python
            else "the program ran no Python that reads PYTHONPATH, so nothing was watched"
        )
        return
    text = json_module.dumps(watched.verdict.to_json())
    if output is not None:
        from skymark.report.html import watched_page

        write_whole(output / "verdict.json", f"{text}\n".encode())
        write_whole(output / "verdict.html", watched_page(watched.verdict).encode())
    if as_json:
        print_json(text)
    else:
        say("\n".join(watched.verdict.lines()))


def _meanwhile(verdict: LoopVerdict) -> None:
    """Print how it stands."""
    note(f"skymark: {verdict.facts.batches} batches so far. {verdict.sentence}")
