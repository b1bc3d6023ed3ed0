"""A finished run to store, a local W&B server, and an environment that leads nowhere else."""

from __future__ import annotations

import os

import pytest

from skymark.store.wandb.client import TimeLimits
from skymark.store.wandb.store import open_run_files
from tests.stores.finished_run import make_run
from tests.stores.wandb_server import wandb_server

PATIENT = TimeLimits(request_s=30, call_s=90, log_s=120, read_s=90)
HURRIED = TimeLimits(request_s=15, call_s=30, log_s=120, sync_s=60, read_s=60)
"""Where something is to go wrong; starting wandb on a busy machine takes some seconds."""


@pytest.fixture(scope="session")
def shared_server():
    """A server for the tests that leave it as it is, each with a run of its own."""
    with wandb_server() as server:
        yield server


@pytest.fixture
def server():
    """A server that a test may stop and have misbehave."""
    with wandb_server() as server:
        yield server


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Have nothing of the user's own W&B set-up in reach; the working directory is there too."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    (home / "temporary").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(home / "temporary"))
    monkeypatch.setenv("SKYMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.delenv("NETRC", raising=False)
    monkeypatch.chdir(home)
    return home


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run-1")


@pytest.fixture
def opened(home):
    """Open the store of a run, with what the environment says then; closed at the end."""
    stores = []

    def open_one(run_id="run-1", limits=PATIENT):
        stores.append(open_run_files("wandb", run_id, limits))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def online(server, opened, monkeypatch):
    """Open the store of a run on the server."""
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    return opened
