"""A suite of another package is priced, and measured on a rented machine that gets its package."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import skymark
from skymark.model.record import Status
from skymark.rundir.newest import runs_in
from skymark.rundir.reader import open_run
from tests.cloud.conftest import Client
from tests.cloud.launches import SMALL, Running, await_gone
from tests.cloud.test_prices import commands, make_home
from tests.installed_suite import SORTING_SUITE, install_into

PROFILE = """
description = "One shape, two algorithms"
suite = "sorting"
platform = "cpu"
scenarios = ["random"]
adapters = ["builtin", "merge"]
"""
MACHINE = SMALL.read_text()
SET_UP_OF_SKYMARK = "--no-deps --no-build-isolation --editable .\n"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """``PYTHONPATH`` of a client that has the suite installed beside its skymark."""
    directory = tmp_path_factory.mktemp("installed")
    install_into(SORTING_SUITE, directory)
    return os.pathsep.join([os.fspath(directory), os.fspath(Path(skymark.__file__).parents[1])])


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    file = tmp_path / "sorting.toml"
    file.write_text(PROFILE)
    return file


def machine_of(directory: Path) -> Path:
    """Write the YAML of a machine to which the suite's package is sent, which installs it."""
    head, set_up, tail = MACHINE.partition(SET_UP_OF_SKYMARK)
    package = "  uv pip install --quiet --no-deps --no-build-isolation ~/sorting_suite\n"
    sent = f"\nfile_mounts:\n  ~/sorting_suite: {SORTING_SUITE}\n"
    file = directory / "sorting.yaml"
    file.write_text(head + set_up + package + tail + sent)
    return file


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return machine_of(tmp_path)


def test_it_is_priced_by_its_own_guesses(path, profile, machine, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", path)
    with commands(make_home(tmp_path / "home")) as cost:
        done = cost(str(profile), "--machine", str(machine), "--infra", "lambda", "--json")
        assert done.returncode == 0, done.stderr
        short = json.loads(done.stdout)
        longer = (str(profile), "--machine", str(machine), "--infra", "lambda", "--json")
        more = json.loads(cost(*longer, "--effort", "rigorous").stdout)
        refused = cost(*longer, "--max-cost", "0.0001")
    assert short["profile"] == "sorting"
    assert (short["duration"]["cells"], short["duration"]["known_cells"]) == (2, 0)
    low_s, low_of_more_s = (one["duration"]["running"]["low_s"] for one in (short, more))
    # Rounds × seconds that the suite says a round takes at least.
    assert low_s >= 2 * 3 * 0.06
    assert low_of_more_s - low_s >= 2 * 10 * 2 - 2 * 3 * 0.06 - 1
    assert 0 < short["cost"]["low_usd"] < short["cost"]["expected_usd"]
    assert refused.returncode == 3


@pytest.mark.cloud
@pytest.mark.timeout(3600)
def test_it_is_measured_on_a_rented_machine(client: Client, path, profile, machine, tmp_path):
    where = ("--infra", "lambda", "--machine", str(machine), "--yes")
    command = Running(
        client,
        *("launch", str(profile), *where, "--rounds", "1", "--output", str(tmp_path / "results")),
        PYTHONPATH=path,
    ).end()
    assert command.status == 0, command.output
    (directory,) = runs_in(tmp_path / "results")
    run = open_run(directory)
    assert run.manifest.plan.suite == "sorting"
    assert {id: record.status for id, record in run.by_id.items()} == {
        "sorting.random.small.builtin": Status.OK,
        "sorting.random.small.merge": Status.OK,
    }
    for record in run.records:
        assert record.metrics["comparisons"].value > 0
        assert record.price_usd > 0
    assert "elements/s" in command.output
    await_gone(client, command.cluster)
