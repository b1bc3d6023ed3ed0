"""Running the command line as a user does: as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from skymark.model.manifest import Manifest
from skymark.model.record import Record
from skymark.rundir.reader import read_manifest, read_record
from tests.conftest import MEASURED

CHEATS = Path(__file__).with_name("cheats.py")

WITH_COVERAGE = {
    "test_accelerators",
    "test_delivering",
    "test_libraries",
    "test_native_operators",
    "test_steps",
}
"""Modules whose processes run what no other test does: the adapters, and what lies in a worker's
venv only."""


def pytest_addoption(parser: pytest.Parser) -> None:
    help = "every scenario of every library, not every second one (nox -s libraries)"
    parser.addoption("--all-pairs", action="store_true", help=help)


@pytest.fixture(autouse=True, scope="module")
def coverage_where_it_tells_something(request: pytest.FixtureRequest) -> Iterator[None]:
    """Count no lines elsewhere: a command takes seven tenths longer, and others have them."""
    with pytest.MonkeyPatch.context() as patch:
        if Path(request.path).stem not in WITH_COVERAGE:
            patch.delenv(MEASURED, raising=False)
        yield


@dataclass(frozen=True)
class Ran:
    """A finished command and the run directory it was to write."""

    status: int
    stdout: str
    stderr: str
    output: Path

    @property
    def records(self) -> dict[str, Record]:
        """The records on disk by cell id."""
        found = [read_record(path) for path in (self.output / "records").glob("*.json")]
        return {record.cell.id: record for record in found}

    @property
    def manifest(self) -> Manifest:
        return read_manifest(self.output)


Skymark = Callable[..., Ran]


def command(*arguments: str) -> list[str]:
    """The `skymark` command of this interpreter."""
    return [sys.executable, "-m", "skymark", *arguments]


def environment(directory: Path) -> dict[str, str]:
    """The caller's environment with a measurement lock of the test's own."""
    return {**os.environ, "SKYMARK_LOCK": str(directory / "machine.lock"), "COLUMNS": "140"}


def run_in(directory: Path, *arguments: str, prefix: Sequence[str] = (), **variables: str) -> Ran:
    """Run a command there; with `run` first, results go to ``out`` in it."""
    output = directory / "out"
    extra = ["--output", str(output)] if arguments[0] == "run" else []
    done = subprocess.run(
        [*prefix, *command(*arguments, *extra)],
        capture_output=True,
        text=True,
        timeout=1500,
        env=environment(directory) | variables,
        cwd=directory,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr, output)


@pytest.fixture
def skymark(tmp_path: Path) -> Skymark:
    """Run a command in the test's directory."""

    def call(*arguments: str, prefix: Sequence[str] = (), **variables: str) -> Ran:
        return run_in(tmp_path, *arguments, prefix=prefix, **variables)

    return call
