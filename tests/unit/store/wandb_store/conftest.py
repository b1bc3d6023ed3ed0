"""A finished run to store, a local W&B server, and an environment that leads nowhere else."""

from __future__ import annotations

import os

import pytest

from skymark.model.record import Cause, Status
from skymark.run.directory import RunDirectory
from skymark.store.wandb.limits import Limits
from skymark.store.wandb.store import open_run_files
from skymark.suites.loading.suite import LoadingSuite
from tests.data.make_run import cell, ended, measured, rounds_of, write_run
from tests.stores.wandb_server import wandb_server

PATIENT = Limits(request_s=5, log_s=60, read_s=90)
HURRIED = Limits(request_s=3, call_s=20, log_s=60, sync_s=8, read_s=30)
"""Where something is to go wrong; starting wandb on a busy machine takes some seconds."""


def make_run(path):
    """Write a run of three cells: two measured, one failed."""
    rounds = {name: rounds_of(speed, name=name) for name, speed in FAST.items()}
    records = [measured(cell("TAB-1", name), rounds[name]) for name in FAST]
    died = Cause(kind="worker-died", message="the worker was killed by signal 9")
    records.append(ended(cell("TAB-1", "ray"), Status.FAILED, died))
    write_run(path, records)
    columns = LoadingSuite.declaration.sample_columns
    run = RunDirectory(path, sample_columns=columns)
    for record in records:
        run.write_record(record, rounds.get(record.cell.adapter, ()))
        run.write_log(record.cell, f"what {record.cell.id} printed\n")
    (path / "rounds" / "loading.TAB-1.small.ray").mkdir(parents=True)
    (path / "rounds" / "loading.TAB-1.small.ray" / "0.json").write_text("{}")
    run.write_sums()
    return path


FAST = {"numpy": 60_000, "grain": 96_000}


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
