"""Secrets of the caller: no process but skymark's own has them, nor any file of the run."""

from __future__ import annotations

import subprocess

import psutil
import pytest

from tests.functional.conftest import command, environment

CANARY = "canary-5f1d"
SECRETS = (
    "WANDB_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "R2_SECRET_ACCESS_KEY",
    "HF_TOKEN", "GITHUB_TOKEN", "LAMBDA_API_KEY", "PRIVATE",
)  # fmt: skip
CURIOUS = """
import os
from skymark.suites.loading.adapters.numpy import NumpyReference

class Curious(NumpyReference):
    slug = "curious"

    def open(self, job):
        print(*(f"{name}={value}" for name, value in os.environ.items()), sep="\\n")
        return super().open(job)
"""


@pytest.mark.libraries
def test_no_process_of_a_run_and_no_file_of_it_has_a_secret(tmp_path):
    (tmp_path / "own.py").write_text(CURIOUS)
    secrets = {name: f"{CANARY}-{name}" for name in SECRETS}
    arguments = ("run", "--scenarios", "TAB-1", "--adapters", "./own.py:Curious", "--rounds", "2")
    process = subprocess.Popen(
        [*command(*arguments, "--workers", "2"), "--output", "out"],
        env=environment(tmp_path) | secrets | {"WANDB_MODE": "disabled"},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    seen = {}
    while process.poll() is None:
        for child in psutil.Process(process.pid).children(recursive=True):
            try:
                seen[child.pid, tuple(child.cmdline())] = child.environ()
            except psutil.Error:
                continue
    said, _ = process.communicate()
    assert process.returncode == 0, said
    assert any("skymark.execute.worker" in words for _, words in seen)
    told = [words for (_, words), had in seen.items() if CANARY in "".join(had.values())]
    assert told == []
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert any(b"PATH=" in path.read_bytes() for path in files)
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []
