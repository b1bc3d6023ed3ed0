"""`skymark exec --grid` on the simulated cloud: one job and one run for each point."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from skymark.store.local import RunDirectory
from tests.cloud.conftest import Client
from tests.cloud.launches import PLAN, ROUNDS, SMALL, Command, await_gone, launch, skymark

pytestmark = [pytest.mark.cloud, pytest.mark.cloud_faults]

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
    command = skymark(client, "exec", machine, *PLAN, *ROUNDS, *GRID, "--output", str(home))
    assert command.status == 0, command.output
    return command, {path.name.partition("-cpu-")[2]: path for path in home.iterdir()}


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


def test_all_points_had_the_same_source(executed: tuple[Command, dict[str, Path]]) -> None:
    _, runs = executed
    commits = {RunDirectory(path).manifest().git.commit for path in runs.values()}
    assert len(commits) == 1


def test_the_queue_names_the_points(
    client: Client, machine: str, executed: tuple[Command, dict[str, Path]]
) -> None:
    jobs = json.loads(skymark(client, "queue", machine, "--json").output)
    named = [job["name"].partition("-cpu-")[2] for job in jobs[:2]]
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


def test_a_wrong_grid_queues_nothing(client: Client, machine: str) -> None:
    before = json.loads(skymark(client, "queue", machine, "--json").output)
    refused = skymark(client, "exec", machine, *PLAN, "--grid", "workers=1", "--grid", "wrkrs=1,2")
    assert refused.status == 2
    assert "unknown setting 'wrkrs'" in refused.output
    assert json.loads(skymark(client, "queue", machine, "--json").output) == before
