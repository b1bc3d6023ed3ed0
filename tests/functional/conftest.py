"""Running the command line as a user does: as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from skymark.model.manifest import Manifest
from skymark.model.record import Record

CHEATS = Path(__file__).with_name("cheats.py")


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
        found = [
            Record.model_validate_json(path.read_bytes())
            for path in (self.output / "records").glob("*.json")
        ]
        return {record.cell.id: record for record in found}

    @property
    def manifest(self) -> Manifest:
        return Manifest.model_validate_json((self.output / "manifest.json").read_bytes())


Skymark = Callable[..., Ran]


def command(*arguments: str) -> list[str]:
    """The `skymark` command of this interpreter."""
    return [sys.executable, "-m", "skymark", *arguments]


def environment(tmp_path: Path) -> dict[str, str]:
    """The caller's environment with a measurement lock of the test's own."""
    return {**os.environ, "SKYMARK_LOCK": str(tmp_path / "machine.lock"), "COLUMNS": "140"}


@pytest.fixture
def skymark(tmp_path: Path) -> Skymark:
    """Run a command; with `run` first, results go to ``tmp_path / "out"``."""

    def call(*arguments: str, prefix: Sequence[str] = (), **variables: str) -> Ran:
        output = tmp_path / "out"
        extra = ["--output", str(output)] if arguments[0] == "run" else []
        done = subprocess.run(
            [*prefix, *command(*arguments, *extra)],
            capture_output=True,
            text=True,
            timeout=600,
            env=environment(tmp_path) | variables,
            cwd=tmp_path,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr, output)

    return call
