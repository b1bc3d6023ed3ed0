"""What a rehearsal needs, and the command that it says to whoever is not root."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from skymark.cloud.rehearsal.image import find_python
from skymark.cloud.rehearsal.instance_types import read_instance_types
from skymark.cloud.rehearsal.requirements import same_command
from skymark.cloud.rehearsal.world import CATALOGS


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (
            ["/home/me/skymark/.venv/bin/skymark", "rehearse", "ci_cpu", "--machine", "a b.yaml"],
            "/home/me/skymark/.venv/bin/skymark rehearse ci_cpu --machine 'a b.yaml'",
        ),
        (
            ["/home/me/skymark/src/skymark/__main__.py", "rehearse", "ci_cpu"],
            f"{sys.executable} -m skymark rehearse ci_cpu",
        ),
    ],
)
def test_the_command_that_needs_root_is_said_whole(monkeypatch, argv, command):
    monkeypatch.setattr(sys, "argv", argv)
    assert same_command() == command


def test_the_prices_of_a_rehearsal_come_with_skymark():
    types = read_instance_types(CATALOGS)
    assert any(one.cpus >= 8 and one.memory_gib >= 32 for one in types.values())  # cpu-benchmark
    assert {one.gpu_name for one in types.values()} >= {"A100", "H100"}
    assert "autumn 2026" in (CATALOGS / "README.md").read_text()


@pytest.mark.parametrize("root", [".pyenv", "elsewhere"])
def test_the_python_of_skypilots_runtime_is_found_where_pyenv_keeps_it(monkeypatch, tmp_path, root):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("PYENV_ROOT", raising=False)
    if root != ".pyenv":
        monkeypatch.setenv("PYENV_ROOT", str(tmp_path / root))
    assert find_python() is None
    python = tmp_path / root / "versions" / "3.10.13" / "bin" / "python3.10"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho /opt/python 10\n")
    python.chmod(0o755)
    assert find_python() == Path("/opt/python")
