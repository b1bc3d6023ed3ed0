"""Runs without a name: the newest one is linked and shown, an unfinished one goes on."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.functional.conftest import command, environment

WORK = ("--scenarios", "TAB-1:tiny", "NLP-1:tiny", "--adapters", "numpy", "--effort", "check")


def skymark(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a directory, with results in its ``results``."""
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        timeout=600,
        env=environment(directory),
        cwd=directory,
        check=False,
    )


def measure(directory: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return skymark(directory, "run", *WORK, "--env", "current", *more)


def test_an_unfinished_run_is_found_finished_and_shown(tmp_path: Path) -> None:
    assert measure(tmp_path, "--shard", "0/2").returncode == 0
    (half,) = (path for path in (tmp_path / "results").iterdir() if not path.is_symlink())
    other = measure(tmp_path, "--resume", "--rounds", "2")
    assert other.returncode == 2
    assert f"other plans: results/{half.name}." in other.stderr

    resumed = measure(tmp_path, "--resume", "--quiet", "--json")
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stderr == ""
    found = json.loads(resumed.stdout)
    assert (found["run_id"], found["finished"], len(found["records"])) == (half.name, True, 2)
    assert "no unfinished run" in measure(tmp_path, "--resume").stderr

    assert measure(tmp_path, "--output", "results/last").returncode == 0
    shown = skymark(tmp_path, "report", "--json")
    assert json.loads(shown.stdout)["run_id"] == "last"
    assert (tmp_path / "results" / "latest").readlink() == Path("last")
    listed = skymark(tmp_path, "history", "results", "--json")
    assert listed.returncode == 0
    assert listed.stdout.count('"last"') == 1
