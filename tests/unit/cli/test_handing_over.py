"""Commands for rented machines run in the venv of SkyPilot, wherever they are typed."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from skymark import resources
from skymark.cli.main import COMMANDS, RENTED
from skymark.cli.sky_words import needs_skypilot
from skymark.cloud import own_venv
from skymark.cloud.own_venv import VARIABLE, has_skypilot, how_to_make_it, program_there
from skymark.model.errors import UsageError

ROOT = Path(__file__).parents[3]
PROGRAM = """#!/bin/sh
echo "handed over: $*"
exit 3
"""
without_skypilot = pytest.mark.skipif(find_spec("sky") is not None, reason="SkyPilot is here")


@pytest.fixture
def venv(tmp_path):
    """A venv as far as it is looked at: skymark's program, and SkyPilot's package."""
    for name in ("bin", "lib/python3.11/site-packages/sky"):
        (tmp_path / "venv" / name).mkdir(parents=True)
    program = tmp_path / "venv" / "bin" / "skymark"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    (tmp_path / "venv/lib/python3.11/site-packages/sky/__init__.py").touch()
    return tmp_path / "venv"


def skymark(*arguments, venv, cwd=ROOT):
    return subprocess.run(
        [sys.executable, "-m", "skymark", *arguments],
        env={**os.environ, VARIABLE: str(venv), "PYTHONPATH": str(ROOT / "src")},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


@without_skypilot
@pytest.mark.parametrize(
    "arguments",
    [("cost", "gpu_a100", "--json"), ("doctor", "--cloud"), ("status",)],
    ids=" ".join,
)
def test_a_command_that_needs_skypilot_is_handed_over_with_its_arguments(venv, arguments):
    done = skymark(*arguments, venv=venv)
    assert done.stdout == f"handed over: {' '.join(arguments)}\n"
    assert done.returncode == 3


@without_skypilot
def test_it_is_handed_over_in_a_directory_that_has_a_folder_named_sky(venv):
    done = skymark("cost", "cpu", venv=venv, cwd=ROOT / "benchmarks")
    assert done.stdout == "handed over: cost cpu\n"


@pytest.mark.parametrize("arguments", [("cost", "--help"), ("plan", "--json"), ("--version",)])
def test_other_commands_and_help_run_where_they_are_typed(venv, arguments):
    done = skymark(*arguments, venv=venv)
    assert done.returncode == 0
    assert "handed over" not in done.stdout


@without_skypilot
def test_a_venv_that_is_named_and_half_made_is_refused_with_the_command_that_makes_one(venv):
    (venv / "lib/python3.11/site-packages/sky/__init__.py").unlink()
    done = skymark("cost", "cpu", venv=venv)
    assert done.returncode == 2
    assert done.stderr.startswith(f"skymark: {VARIABLE} names {venv}, ")
    assert done.stderr.endswith(": make cloud\n")


def test_every_command_of_rented_machines_needs_skypilot_and_help_does_not():
    for command in COMMANDS[RENTED]:
        assert needs_skypilot([command, "anything"], COMMANDS[RENTED])
        assert not needs_skypilot([command, "-h"], COMMANDS[RENTED])
    assert needs_skypilot(["exec", "NAME", "--", "ls", "--help"], COMMANDS[RENTED])
    assert needs_skypilot(["doctor", "--cloud"], COMMANDS[RENTED])
    assert needs_skypilot(["clip", "submit"], COMMANDS[RENTED])
    assert needs_skypilot(["clip", "plan", "--infra", "lambda"], COMMANDS[RENTED])
    assert needs_skypilot(["clip", "plan", "--infra=lambda"], COMMANDS[RENTED])
    assert needs_skypilot(["render", "sky", "cpu"], COMMANDS[RENTED])
    for other in ([], ["doctor"], ["run", "--cloud"], ["--help"], ["clip", "plan"]):
        assert not needs_skypilot(other, COMMANDS[RENTED])
    for other in (["render", "slurm", "sky"], ["clip", "run", "--infra", "lambda"]):
        assert not needs_skypilot(other, COMMANDS[RENTED])


def test_what_is_named_counts_before_the_checkout_s(venv, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(venv))
    assert program_there() == venv / "bin" / "skymark"
    monkeypatch.setenv(VARIABLE, str(venv.parent))
    with pytest.raises(UsageError, match=f"{VARIABLE} names {venv.parent}, "):
        program_there()


def test_the_command_that_makes_it_works_from_here(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    assert how_to_make_it().endswith(": make cloud")
    monkeypatch.chdir(tmp_path)
    assert how_to_make_it().endswith(f": make -C {ROOT} cloud")


def test_an_installed_skymark_makes_it_below_the_cache_for_its_very_files(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("SKYMARK_CACHE", str(tmp_path))
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "site-packages" / "skymark")
    assert own_venv.cloud_venv().parent == tmp_path / "cloud"
    assert own_venv.cloud_venv().name.startswith("skymark-")
    assert how_to_make_it().endswith(": skymark env cloud")
    assert program_there() is None


def test_a_folder_named_sky_is_no_skypilot(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    assert has_skypilot() == any(
        (Path(place) / "sky" / "__init__.py").is_file() for place in sys.path
    )
