"""The source that goes to a machine: the checkout, or the installed skymark laid out like one."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from uv import find_uv_bin

import skymark
from tests.planted_files import PLANTED, arrived, plant

ROOT = Path(__file__).parents[3]
UV = (find_uv_bin(), "pip", "install", "--quiet", "--no-deps", "--offline", "--target")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """What an installed skymark sends, with planted files among its own."""
    directory = tmp_path_factory.mktemp("source")
    build = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(directory))
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = directory.glob("*.whl")
    installed = directory / "installed"
    subprocess.run([*UV, installed, wheel], check=True, capture_output=True)
    for folder in ("", "report", "data", "data/profiles", "suites/clip"):
        for name, text in PLANTED.items():
            plant(installed / "skymark" / folder, name, text)
    made = [source_of(installed, directory / "cache") for _ in range(2)]
    assert made[0] == made[1]
    return made[0]


def source_of(installed: Path, cache: Path) -> Path:
    program = "from skymark.cloud.source import source_directory; print(source_directory())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(installed), "SKYMARK_CACHE": str(cache)},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(done.stdout.strip())


def test_a_bundle_has_the_installed_files_and_no_planted_one(bundle):
    assert arrived(bundle) == []
    assert bundle.parent.parent.name == "cache"


def test_a_bundle_has_all_that_a_set_up_installs(bundle):
    package = Path(skymark.__file__).parent
    here = {path.relative_to(package) for path in package.rglob("*.py")}
    there = bundle / "src" / "skymark"
    assert {path.relative_to(there) for path in there.rglob("*.py")} == here
    pins = ROOT / "requirements"
    kept = {path.relative_to(pins) for path in pins.rglob("*") if path.suffix in {".in", ".txt"}}
    kept -= {Path("docs.in"), Path("docs.txt")}  # for the site of the documentation alone
    assert len(kept) > 50
    for path in kept:
        assert (bundle / "requirements" / path).read_bytes() == (pins / path).read_bytes()
    assert not list(bundle.rglob("__pycache__"))


def test_a_bundle_is_the_version_that_is_here_with_its_commands_and_suites(bundle):
    project = tomllib.loads((bundle / "pyproject.toml").read_text())["project"]
    assert project["version"] == skymark.__version__
    assert project["scripts"]["skymark"] == "skymark.cli.main:entry_point"
    assert "loading" in project["entry-points"]["skymark.suites"]


def test_the_same_skymark_has_one_bundle(bundle):
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
