"""`skymark env` with a cache of the test's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

OWN = """
from skymark.suites.loading.adapters.numpy import NumpyReference

class Own(NumpyReference):
    slug = "own"
    requirements = ("iniconfig==2.0.0",)

class Hopeless(NumpyReference):
    slug = "hopeless"
    requirements = ("no-such-package-xyz",)
"""


@pytest.fixture
def env(tmp_path, skymark):
    (tmp_path / "own.py").write_text(OWN)
    return lambda *arguments: skymark("env", *arguments, SKYMARK_CACHE=str(tmp_path / "cache"))


def test_environments_are_built_listed_and_removed(env):
    built = env("build", "numpy", "./own.py:Own")
    assert built.status == 0, built.stderr
    assert "venv of own " in built.stderr
    directories = [Path(line.partition(": ")[2]) for line in built.stdout.splitlines()]
    assert all((directory / "bin" / "python").exists() for directory in directories)

    again = env("build", "numpy")
    assert (again.status, again.stderr) == (0, "")

    rows = json.loads(env("list", "--json").stdout)
    assert [row["name"] for row in rows] == ["numpy", "own"]
    assert all(row["size_bytes"] > 1 << 20 for row in rows)
    assert "own" in env("list").stdout

    removed = env("clean", "NumPy reference")
    assert removed.status == 0
    assert removed.stdout.startswith("removed numpy: ")
    assert [directory.exists() for directory in directories] == [False, True]

    wrong = env("clean", "numyp")
    assert wrong.status == 2
    assert "'numpy'" in wrong.stderr

    assert env("clean").stdout.startswith("removed own: ")
    assert json.loads(env("list", "--json").stdout) == []


def test_a_build_that_fails_shows_the_log_and_spares_the_others(env):
    built = env("build", "./own.py:Hopeless", "./own.py:Own")
    assert built.status == 1
    assert "no-such-package-xyz" in built.stderr
    assert "own" in built.stdout
