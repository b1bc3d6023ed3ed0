"""Secrets of the caller: no process but those that need one has it, nor any file of the run."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.functional.conftest import command, environment
from tests.stores.s3_server import s3_server
from tests.stores.wandb_backend import KEY
from tests.stores.wandb_server import wandb_server

CANARY = "canary-5f1d"
SECRETS = (
    "WANDB_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "R2_SECRET_ACCESS_KEY",
    "HF_TOKEN", "GITHUB_TOKEN", "LAMBDA_API_KEY", "PRIVATE",
)  # fmt: skip
SEEN = "seen"
"""File that is made when all the processes that are waited for were seen."""
UNTIL_SEEN = """
import os, pathlib, time

def until_seen():
    deadline = time.monotonic() + 60
    while not pathlib.Path({seen!r}).exists() and time.monotonic() < deadline:
        time.sleep(0.01)
"""
CURIOUS = """
from skymark.suites.loading.adapters.numpy import NumpyReference

class Curious(NumpyReference):
    slug = "curious"

    def open(self, job):
        print(*(f"{name}={value}" for name, value in os.environ.items()), sep="\\n")
        until_seen()
        return super().open(job)

class Own(NumpyReference):
    slug = "own"
    requirements = ("iniconfig==2.0.0", "tiny-library @ {package}")
"""
BUILD_BACKEND = """
import zipfile

def build_wheel(directory, settings=None, metadata=None):
    until_seen()
    name = "tiny_library-1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(directory) / name, "w") as archive:
        info = "tiny_library-1.0.dist-info"
        about = "Metadata-Version: 2.1\\nName: tiny-library\\nVersion: 1.0"
        archive.writestr(f"{info}/METADATA", about)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true")
        archive.writestr(f"{info}/RECORD", "")
    return name
"""
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "tiny-library"
version = "1.0"
"""
WORKER = "skymark.execute.worker"
WANDB_SERVICE = "skymark.store.wandb.service"
PATIENT = ("--timeout", "300")
"""Longer than an adapter waits to be seen."""
LOOK_S = 0.01
"""Pause between two looks at all processes of the machine."""


def write_own(place):
    """Write adapters that wait until they were seen, and a package whose making waits as well."""
    wait = UNTIL_SEEN.format(seen=str(place / SEEN))
    package = place / "package"
    package.mkdir()
    (package / "pyproject.toml").write_text(PROJECT)
    (package / "backend.py").write_text(wait + BUILD_BACKEND)
    (place / "own.py").write_text(wait + CURIOUS.replace("{package}", package.as_uri()))


def watched(place, awaited, *arguments, **variables):
    """Run a command; returns the environment of every process that it started, by arguments.

    Descendants are found by their parents, those that left the family by the lock's path. What
    `write_own` wrote goes on when all the programs that are awaited were seen.
    """
    process = subprocess.Popen(
        command(*arguments),
        env=environment(place) | variables,
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    seen = {}
    while process.poll() is None:
        family = {child.pid for child in psutil.Process(process.pid).children(recursive=True)}
        for one in psutil.process_iter():
            try:
                words = tuple(one.cmdline())
                had = one.environ()
                if not words or tuple(one.cmdline()) != words:
                    continue  # In the middle of an exec: the words of another program.
                if one.pid in family or environment(place)["SKYMARK_LOCK"] in had.values():
                    seen[one.pid, words] = had
            except psutil.Error:
                continue
        if awaited <= {Path(word).name for _, words in seen for word in words}:
            (place / SEEN).touch()
        time.sleep(LOOK_S)
    said, _ = process.communicate()
    assert process.returncode == 0, said
    # A child between its fork and its exec is still the command itself, in memory and in words.
    own = tuple(command(*arguments))
    return [(words, had) for (_, words), had in seen.items() if words != own]


def holders(seen, secret):
    """Return the command lines of the processes that have a secret."""
    return [" ".join(words) for words, had in seen if secret in "".join(had.values())]


def files_with(place, secret):
    files = [path for path in place.rglob("*") if path.is_file()]
    return [path for path in files if secret.encode() in path.read_bytes()]


@pytest.mark.libraries
def test_no_process_of_a_run_and_no_file_of_it_has_a_secret(tmp_path):
    write_own(tmp_path)
    secrets = {name: f"{CANARY}-{name}" for name in SECRETS} | {"WANDB_MODE": "disabled"}
    what = (
        "--scenarios",
        "TAB-1",
        "--adapters",
        "./own.py:Curious",
        "--effort",
        "check",
        "--rounds",
        "2",
        *PATIENT,
    )
    run = ("run", *what, "--workers", "2", "--output", "out")
    seen = watched(tmp_path, {WORKER}, *run, **secrets)
    assert any(WORKER in words for words, _ in seen)
    assert holders(seen, CANARY) == []
    assert files_with(tmp_path / "out", "PATH=")
    assert files_with(tmp_path / "out", CANARY) == []


def test_a_store_s_key_is_only_in_the_process_that_stores(tmp_path):
    write_own(tmp_path)
    secrets = {name: f"{CANARY}-{name}" for name in SECRETS}
    what = ("--scenarios", "TAB-1", "--adapters", "./own.py:Curious", "--effort", "check", *PATIENT)
    stored = ("--store", "s3://results", "--store-wait", "900")
    where = ("--env", "current", *stored, "--output", "out")
    with s3_server() as bucket, wandb_server() as server:
        bucket.make_bucket("results")
        given = secrets | bucket.variables | server.variables
        given |= {"SKYMARK_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path / "home")}
        seen = watched(tmp_path, {WORKER, WANDB_SERVICE}, "run", *what, *where, **given)
    bucket_key = bucket.variables["AWS_SECRET_ACCESS_KEY"]
    assert any(WORKER in words for words, _ in seen)
    assert holders(seen, CANARY) == []
    assert holders(seen, bucket_key) == []
    with_key = holders(seen, KEY)
    assert any(WANDB_SERVICE in words for words in with_key)
    assert [words for words in with_key if "wandb" not in words] == []
    assert [words for words in with_key if "skymark.store.wandb.content" in words] == []
    for secret in (CANARY, KEY, bucket_key):
        for place in ("out", "cache"):
            assert files_with(tmp_path / place, secret) == []


def test_no_process_that_makes_a_venv_has_a_secret(tmp_path):
    write_own(tmp_path)
    secrets = {name: f"{CANARY}-{name}" for name in SECRETS}
    cache = {"SKYMARK_CACHE": str(tmp_path / "cache")}
    seen = watched(tmp_path, {"uv"}, "env", "build", "./own.py:Own", **secrets, **cache)
    assert any(Path(words[0]).name == "uv" for words, _ in seen if words)
    assert holders(seen, CANARY) == []
    assert files_with(tmp_path / "cache", CANARY) == []
