"""The runner with a real library: a run that was finished is taken up, not made again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.conftest import environment

ROOT = Path(__file__).parents[2]
ONE_CELL = ("--scenarios", "TAB-1", "--adapters", "numpy", "--effort", "check")


def runner(directory: Path) -> subprocess.CompletedProcess[str]:
    command = ("--platform", "cpu", "--results", str(directory / "results"), *ONE_CELL)
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.runners.full_runner", *command],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(directory),
        timeout=300,
        check=False,
    )


@pytest.mark.libraries
def test_the_same_command_goes_on_with_its_run(tmp_path):
    first = runner(tmp_path)
    assert first.returncode == 0, first.stderr
    (record,) = (tmp_path / "results").glob("ci_cpu-*/records/*.json")
    measured = record.read_bytes()
    again = runner(tmp_path)
    assert again.returncode == 0, again.stderr
    assert record.read_bytes() == measured
