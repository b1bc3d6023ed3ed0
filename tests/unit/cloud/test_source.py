"""The source that goes to a machine: the checkout, or the installed skymark laid out like one."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import skymark
from skymark.cloud.source import make_bundle, source_directory

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return make_bundle(tmp_path_factory.mktemp("source"))


def test_a_checkout_sends_itself():
    assert source_directory() == ROOT


def test_a_bundle_has_all_that_a_set_up_installs(bundle):
    package = Path(skymark.__file__).parent
    here = {path.relative_to(package) for path in package.rglob("*.py")}
    there = bundle / "src" / "skymark"
    assert {path.relative_to(there) for path in there.rglob("*.py")} == here
    for pins in ("container.txt", "container-build.txt"):
        assert "--hash=sha256:" in (bundle / "requirements" / pins).read_text()
    assert not list(bundle.rglob("__pycache__"))


def test_a_bundle_is_the_version_that_is_here_with_its_commands_and_suites(bundle):
    project = tomllib.loads((bundle / "pyproject.toml").read_text())["project"]
    assert project["version"] == skymark.__version__
    assert project["scripts"]["skymark"] == "skymark.cli.main:entry_point"
    assert "loading" in project["entry-points"]["skymark.suites"]


def test_the_same_skymark_has_one_bundle(bundle):
    before = (bundle / "pyproject.toml").stat().st_mtime_ns
    assert make_bundle(bundle.parent) == bundle
    assert (bundle / "pyproject.toml").stat().st_mtime_ns == before
    assert list(bundle.parent.iterdir()) == [bundle]


def test_a_bundle_can_be_built_and_has_the_entry_points(bundle, tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(build, cwd=bundle, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith(f"skymark-{skymark.__version__}-")
    with zipfile.ZipFile(wheel) as content:
        (name,) = [one for one in content.namelist() if one.endswith("entry_points.txt")]
        found = content.read(name).decode()
    command = EntryPoint("skymark", "skymark.cli.main:entry_point", "console_scripts")
    assert f"{command.name} = {command.value}" in found
    assert "[skymark.suites]" in found
