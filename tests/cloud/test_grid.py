"""`skymark exec --grid` on the simulated cloud: one job and one run for each point."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skymark.cloud.machine_script import RESULTS
from skymark.rundir.directory import RunDirectory
from tests.cloud.conftest import Client
from tests.cloud.launches import (
    PLAN,
    ROUNDS,
    SMALL,
    Command,
    Running,
    await_gone,
    bucket_of,
    launch,
    skymark,
)
from tests.faults.runs import rounds_in

pytestmark = [pytest.mark.cloud, pytest.mark.cloud_faults, pytest.mark.timeout(3600)]

GRID = ("--grid", "workers=0,1", "--grid", "batch_size=16")
POINTS = {"workers-0_batch_size-16": 0, "workers-1_batch_size-16": 1}


@pytest.fixture(scope="module")
def machine(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A machine that a launch has left."""
    keep = ("--keep", "--idle-minutes", "10")
    kept = launch(client, SMALL, tmp_path_factory.mktemp("first"), *keep)
    assert kept.status == 0, kept.output
    yield kept.cluster
    assert skymark(client, "down", kept.cluster).status == 0
    await_gone(client, kept.cluster)


@pytest.fixture(scope="module")
def executed(
    client: Client, machine: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Command, dict[str, Path]]:
    """What the grid said, and the run of each point."""
    home = tmp_path_factory.mktemp("grid")
    options = (*PLAN, *ROUNDS, *GRID, "--output", str(home), "--store", "s3://results")
    with bucket_of(client) as bucket:
        command = skymark(client, "exec", machine, *options, **bucket.variables)
    assert command.status == 0, command.output
    runs = (path for path in home.iterdir() if not path.is_symlink())  # one is the latest
    return command, {point_in(path.name): path for path in runs}


def point_in(name: str) -> str:
    """Return the point in the name of a run or job: behind its profile and its random part."""
    return name.partition("-cpu-")[2].partition("-")[2]


def test_each_point_has_a_run_of_its_own_with_its_own_settings(
    executed: tuple[Command, dict[str, Path]],
) -> None:
    _, runs = executed
    assert runs.keys() == POINTS.keys()
    for point, path in runs.items():
        manifest = RunDirectory(path).manifest()
        assert manifest.counts == {"ok": 1}
        (cell,) = manifest.cells.values()
        assert (cell.settings["workers"], cell.settings["batch_size"]) == (POINTS[point], 16)


def test_each_point_went_to_the_store_with_the_key_that_was_sent(
    executed: tuple[Command, dict[str, Path]],
) -> None:
    command, runs = executed
    stored = re.findall(r"stored in s3://results/(\S+): \d+ files, read back", command.output)
    assert sorted(stored) == sorted(path.name for path in runs.values())


def test_all_points_had_the_same_source(executed: tuple[Command, dict[str, Path]]) -> None:
    _, runs = executed
    commits = {RunDirectory(path).manifest().git.commit for path in runs.values()}
    assert len(commits) == 1


def test_the_queue_names_the_points(
    client: Client, machine: str, executed: tuple[Command, dict[str, Path]]
) -> None:
    jobs = json.loads(skymark(client, "queue", machine, "--json").output)
    named = [point_in(job["name"]) for job in jobs[:2]]
    assert named == ["workers-1-batch-size-16", "workers-0-batch-size-16"]
    assert "workers-1-batch-size-16" in skymark(client, "queue", machine).output


def test_the_points_are_shown_side_by_side_and_can_be_compared(
    client: Client, executed: tuple[Command, dict[str, Path]]
) -> None:
    command, runs = executed
    for point in POINTS:
        assert re.search(rf"TAB-1:small +numpy +{point} +ok +[\d.]+", command.output)
    compared = skymark(client, "compare", *map(str, runs.values()), "--across", "cells")
    assert compared.status == 0, compared.output


def await_rounds_of_first(running: Running, there: Path, eventually: Callable[..., None]) -> None:
    running.said_at_s("-workers-0 is job")
    run = re.search(r"(\S+-workers-0) is job", running.output)[1]
    eventually(lambda: list(there.glob(f"{run}/rounds/*/3.json")), timeout_s=900)


def as_the_first_is_submitted(
    client: Client, running: Running, there: Path, eventually: Callable[..., None]
) -> None:
    asked = "[one.name for one in sky.api_status()]"
    eventually(lambda: "sky.exec" in client.ask(asked), timeout_s=600)


def as_the_second_is_submitted(
    client: Client, running: Running, there: Path, eventually: Callable[..., None]
) -> None:
    await_rounds_of_first(running, there, eventually)


def when_all_are_queued(
    client: Client, running: Running, there: Path, eventually: Callable[..., None]
) -> None:
    running.said_at_s("workers-1 is job")
    await_rounds_of_first(running, there, eventually)


@pytest.mark.parametrize(
    "moment", [as_the_first_is_submitted, as_the_second_is_submitted, when_all_are_queued]
)
def test_an_interrupted_grid_brings_home_what_was_measured_and_leaves_no_job(
    client: Client,
    machine: str,
    tmp_path: Path,
    eventually: Callable[..., None],
    moment: Callable[..., None],
) -> None:
    (instance,) = client.world.rented(machine)
    there = client.world.machine(instance).home / RESULTS
    before = set(there.iterdir())
    grid = ("--rounds", "800", "--grid", "workers=0,1")
    running = Running(client, "exec", machine, *PLAN, *grid, "--output", str(tmp_path))
    moment(client, running, there, eventually)
    running.process.send_signal(signal.SIGINT)
    ended = running.end()
    assert ended.status == 130, ended.output
    assert re.search(r"\bworkers-1: .*\btaken back\b", ended.output)
    jobs = json.loads(skymark(client, "queue", machine, "--json").output)
    going = {"PENDING", "SETTING_UP", "RUNNING"}  # INIT has a number, and was never submitted
    assert not [job for job in jobs if job["status"] in going]

    runs = [path for path in set(there.iterdir()) - before if (path / "manifest.json").exists()]
    assert [path.name for path in tmp_path.iterdir()] == [path.name for path in runs]
    for run in runs:
        assert rounds_in(tmp_path / run.name) == rounds_in(run)
    if moment is not as_the_first_is_submitted:  # which may have begun in spite of it
        (run,) = runs
        (rounds,) = rounds_in(run).values()
        assert 3 < len(rounds) < 800


def test_a_wrong_grid_queues_nothing(client: Client, machine: str) -> None:
    before = json.loads(skymark(client, "queue", machine, "--json").output)
    refused = skymark(client, "exec", machine, *PLAN, "--grid", "workers=1", "--grid", "wrkrs=1,2")
    assert refused.status == 2
    assert "unknown setting 'wrkrs'" in refused.output
    assert json.loads(skymark(client, "queue", machine, "--json").output) == before
