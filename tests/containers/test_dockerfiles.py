"""Dockerfiles as texts: linted, pinned, and alike."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "benchmarks" / "docker"
PLATFORMS = ("cpu", "gpu", "tpu")


def text_of(platform: str) -> str:
    return (DOCKER / f"Dockerfile.{platform}").read_text()


@pytest.mark.parametrize("platform", PLATFORMS)
def test_hadolint_finds_nothing(platform):
    done = subprocess.run(
        ["hadolint", DOCKER / f"Dockerfile.{platform}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_package_from_an_index_is_pinned_by_hash(platform):
    commands = re.sub(r"\\\n\s*", "", text_of(platform))
    installs = re.findall(r"pip (?:install|wheel) [^&\n]*", commands)
    assert len(installs) >= 4
    for install in installs:
        # Without dependencies and from a file that was just built, nothing comes from an index.
        assert "--require-hashes" in install or "--no-deps" in install, install


def test_all_images_begin_with_one_base_that_is_pinned_by_digest():
    bases = {re.findall(r"^ARG BASE=(.*)$", text_of(one), re.MULTILINE)[0] for one in PLATFORMS}
    (base,) = bases
    assert re.fullmatch(r"\S+:3\.11-slim-bookworm@sha256:[0-9a-f]{64}", base)
    for platform in PLATFORMS:
        stages = re.findall(r"^FROM (\S+)(?: AS (\S+))?$", text_of(platform), re.MULTILINE)
        assert stages[0][0] == "$BASE"
        assert {source for source, _ in stages[1:]} <= {name for _, name in stages}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_an_image_has_no_health_check_and_starts_its_platform(platform):
    text = text_of(platform)
    assert not re.search(r"^HEALTHCHECK", text, re.MULTILINE)
    assert f'"--platform", "{platform}"' in text


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_images_differ_only_in_what_their_platform_needs(platform):
    """What is tested with the image for CPUs is true of the others."""
    shared = set(text_of("cpu").splitlines()) & set(text_of(platform).splitlines())
    commands = {line for line in text_of(platform).splitlines() if re.match(r"(RUN|FROM)\b", line)}
    different = {line for line in commands if line not in shared}
    listing = "RUN python benchmarks/docker/venvs.py list"
    assert different == {f"{listing} --accelerator {platform} $ADAPTERS > venvs.jsonl"}


LOADED = """
import json, runpy, sys
sys.argv = ["venvs.py", "build", "venvs.jsonl"]
runpy.run_path("venvs.py", run_name="__main__")
files = {getattr(module, "__file__", None) for module in sys.modules.values()}
print(json.dumps(sorted(one for one in files if one and "/skymark/" in one)))
"""


def test_the_layer_of_venvs_has_the_files_that_making_them_loads_and_no_other(tmp_path):
    """One more, and a change of it would build gigabytes anew; one less, and none are built."""
    stage = text_of("cpu").partition("AS venvs\n")[2].partition("FROM")[0]
    for line in re.sub(r"\\\n\s*", "", stage).splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            *sources, target = line.split()[1:]
            for source in sources:
                into = tmp_path / target if target.endswith("/") else (tmp_path / target).parent
                into.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                copy(ROOT / source, into / Path(source).name)
    (tmp_path / "venvs.jsonl").touch()
    # A copy is no part of the package's coverage, whose report would look for it when it is gone.
    inherited = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
    variables = inherited | {"PYTHONPATH": "src", "SKYMARK_CACHE": os.fspath(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    copied = {os.fspath(path) for path in (tmp_path / "src").rglob("*.py")}
    run_beside = {os.fspath(tmp_path / "src/skymark/machine/keeper.py")}  # a process of its own
    assert {*json.loads(done.stdout), *run_beside} == copied
