"""A W&B server that goes away under a run: the run ends in a stated time, and loses nothing."""

from __future__ import annotations

import contextlib
import time

import pytest

from skymark.rundir.directory import RunDirectory
from skymark.rundir.reader import open_run
from skymark.store.kinds import FINISH_S
from tests.faults.runs import Case
from tests.faults.test_buckets import fetched, finish_as_told
from tests.stores.wandb_server import wandb_server
from tests.waiting import until

WAIT_S = 5.0
"""How long the end of a run waits for a server that does not recover."""
BOUND_S = 9 * 60 - FINISH_S + WAIT_S
"""How long the end of a run may take with a server that is away: what docs/wandb.md states, with
this wait instead of the usual one."""


@pytest.fixture
def server():
    with wandb_server() as running:
        yield running


def at_the_start(case, server):
    server.stop()
    return case.start()


def in_the_middle(case, server):
    process = case.start_and_hold(4)
    server.stop()
    case.release()
    return process


def at_the_end(case, server):
    server.misbehave(stall=["CreateArtifact"])  # only the end of a run asks for it
    process = case.start()
    until(lambda: finished(case), 600, what="the end of the measuring")
    server.stop()
    server.misbehave()
    return process


def finished(case):
    with contextlib.suppress(Exception):
        return RunDirectory(case.output).manifest().finished
    return False


@pytest.mark.parametrize(
    ("fault", "happens"),
    [
        ("W&B down from the start", at_the_start),
        ("W&B down from the middle", in_the_middle),
        ("W&B down at the end", at_the_end),
    ],
)
def test_a_run_ends_without_wandb_and_a_command_stores_it_later(
    tmp_path, server, table, fault, happens
):
    case = Case(tmp_path, variables=server.variables)
    case.arguments = (*case.arguments, "--store-wait", str(WAIT_S))
    process = happens(case, server)
    until(lambda: process.poll() is not None or finished(case), 1200)
    begin = time.monotonic()
    status, stderr = case.finish(process, timeout=2 * BOUND_S)
    assert time.monotonic() - begin < BOUND_S
    assert status == 1, stderr
    assert len(open_run(case.output).records) == 4
    server.start()
    finish_as_told(case, stderr)
    back = fetched(case, "wandb://lab/skymark/runs/out")
    results = [a for a in server.artifacts.values() if "benchmark-results" in str(a["collection"])]
    assert [one["state"] for one in results] == ["COMMITTED"]
    case.kept = case.on_disk()
    case.output = back
    row = case.row()
    table.add(fault, row)
    assert (row.lost, row.repeated) == (0, 0)
