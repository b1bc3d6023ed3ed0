"""`skymark launch --idle` and `-d`, and `sky jobs launch`: machines that work on by themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from skymark.cloud.machine_script import RESULTS
from skymark.cloud.sky.tasks import NOTHING
from skymark.rundir.directory import RunDirectory
from skymark.rundir.newest import runs_in
from tests.cloud.conftest import Client
from tests.cloud.launches import PLAN, ROUNDS, SMALL, await_gone, launch, skymark

pytestmark = [pytest.mark.cloud, pytest.mark.cloud_faults, pytest.mark.timeout(3600)]


def test_an_idle_machine_is_set_up_runs_nothing_and_takes_runs(
    client: Client, tmp_path: Path
) -> None:
    name = ("-c", "skymark-mine", "-n", "set-up")
    idle = launch(client, SMALL, tmp_path / "nothing", "--idle", "-i", "10", *name)
    try:
        assert idle.status == 0, idle.output
        assert NOTHING.removeprefix("echo ") in idle.output
        assert not (tmp_path / "nothing").exists()
        (job,) = json.loads(skymark(client, "queue", "skymark-mine", "--json").output)
        assert (job["name"], job["status"]) == ("set-up", "SUCCEEDED")
        again = launch(client, SMALL, tmp_path / "again", "-c", "skymark-mine")
        assert again.status == 2, again.output
        assert "skymark exec skymark-mine" in again.output
        run = (*PLAN, *ROUNDS, "--output", str(tmp_path / "run"))
        done = skymark(client, "exec", "skymark-mine", *run)
        assert done.status == 0, done.output
        (directory,) = runs_in(tmp_path / "run")
        assert RunDirectory(directory).manifest().counts == {"ok": 1}
    finally:
        skymark(client, "down", "skymark-mine")
    await_gone(client, "skymark-mine")


def test_a_detached_launch_returns_and_its_results_wait_on_the_machine(
    client: Client, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    detached = launch(client, SMALL, tmp_path / "nothing", "-d")
    name = detached.cluster
    try:
        assert detached.status == 0, detached.output
        (instance,) = client.world.rented(name)
        there = client.world.machine(instance).home / RESULTS
        eventually(lambda: list(there.glob("*.outcome")), timeout_s=900)
        assert not (tmp_path / "nothing").exists()
        copied = skymark(client, "rsync", f"{name}:results/latest/", str(tmp_path))
        assert copied.status == 0, copied.output
        assert RunDirectory(tmp_path).manifest().counts == {"ok": 1}
    finally:
        skymark(client, "down", name)
    await_gone(client, name)
