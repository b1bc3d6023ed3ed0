"""One gate for all text that goes to a terminal: nothing in skymark writes past it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[3]
GATE = {
    "src/skymark/cli/caller.py": {"print", "sys.stderr", "sys.stdout"},
    "src/skymark/cli/console.py": {"rich.console.Console"},
}
"""What the gate itself is made of."""
EXCEPTIONS = {
    # `Run.table` makes a text of its tables, and prints nothing.
    "src/skymark/report/results.py": {"rich.console.Console"},
    # Streams handed to `plain_stream`, or asked whether they are a terminal.
    "src/skymark/cli/terminal.py": {"sys.stderr"},
    "src/skymark/cli/launch.py": {"sys.stdout", "sys.stderr"},
    "src/skymark/cli/rehearse.py": {"sys.stderr"},
    "src/skymark/cli/machines.py": {"sys.stdout"},
    # Flushed, while an error can still be told; and the pages of help, whose text is skymark's own.
    "src/skymark/cli/main.py": {"sys.stdout", "sys.stderr"},
    # Processes of skymark's own, which tell the process that started them: a port, a word, JSON.
    "src/skymark/suites/loading/dataset/object_server.py": {"sys.stdout"},
    "src/skymark/execute/device_program.py": {"sys.stdout"},
    "src/skymark/store/wandb/service.py": {"print"},
    "src/sky_rehearsal/machine_start.py": {"sys.stdout"},
    # JSON for a builder of images, and that venvs are made, in the builder's own words.
    "benchmarks/docker/venvs.py": {"sys.stdout", "print"},
    # Of a process whose output is a cell's log.
    "src/skymark/execute/worker.py": {"sys.stdout", "sys.stderr", "traceback.print_exc"},
    "src/skymark/machine/children.py": {"sys.stdout", "sys.stderr"},
    "src/skymark/suites/clip/runner.py": {"sys.stdout"},
    # A program of a worker's venv, whose output its parent reads.
    "src/skymark/suites/loading/ceilings.py": {"sys.stdout"},
    "src/skymark/suites/loading/drives/fresh_main.py": {"traceback.print_exc"},
    # Handed to SkyPilot's log in place of standard output.
    "src/skymark/cloud/sky/client.py": {"sys.stderr"},
    # In other people's programs, where none of skymark's other modules can be imported.
    "src/skymark/watching/loop.py": {"sys.stderr"},
    # A program beside SkyPilot's API server, whose output is a log.
    "src/sky_rehearsal/namespace_keeper.py": {"sys.stderr"},
}
"""Other uses of a stream, each with its reason."""
WAYS = {
    "print", "sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__", "rich.print",
    "rich.get_console", "rich.print_json", "rich.console.Console", "pprint.pprint", "pprint.pp",
    "traceback.print_exc", "traceback.print_exception", "logging.StreamHandler",
    "logging.basicConfig", "warnings.warn",
}  # fmt: skip


def ways_out(source: str) -> set[str]:
    """Return the ways to a terminal that a module uses, where it is not for annotations alone."""
    tree = ast.parse(source)
    names = {"print": "print"}
    annotations = {
        id(inner)
        for node in ast.walk(tree)
        for noted in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if isinstance(noted, ast.AST)
        for inner in ast.walk(noted)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {one.asname or one.name: one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    found = set()
    for node in ast.walk(tree):
        if id(node) in annotations or not isinstance(node, ast.Name | ast.Attribute):
            continue
        head, dot, rest = ast.unparse(node).partition(".")
        found.add(f"{names.get(head, head)}{dot}{rest}")
    return found & WAYS


def test_nothing_writes_past_the_gate():
    allowed = GATE | EXCEPTIONS
    files = [
        *SOURCES.glob("src/**/*.py"),
        *SOURCES.glob("benchmarks/**/*.py"),
    ]
    found = {path.relative_to(SOURCES).as_posix(): ways_out(path.read_text()) for path in files}
    assert {path: ways for path, ways in found.items() if ways} == allowed


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("print('a')", {"print"}),
        ("say = print", {"print"}),
        ("import sys\nsys.stderr.write('a')", {"sys.stderr"}),
        ("from sys import stderr as out\nout.write('a')", {"sys.stderr"}),
        ("from rich.console import Console\nConsole().print('a')", {"rich.console.Console"}),
        ("from rich.console import Console\ndef f(console: Console) -> Console: ...", set()),
        ("import rich.console as r\nr.Console()", {"rich.console.Console"}),
        ("from rich import print\nprint('a')", {"rich.print"}),
        ("import traceback\ntraceback.print_exc()", {"traceback.print_exc"}),
        ("console.print('a')", set()),
    ],
)
def test_a_way_past_the_gate_is_seen(source, found):
    assert ways_out(source) == found
