"""Dockerfiles as texts: linted, pinned, and alike."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

DOCKER = Path(__file__).parents[2] / "benchmarks" / "docker"
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
