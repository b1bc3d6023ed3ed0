"""`skymark launch --managed`: a machine is taken away, and another one goes on from the bucket."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sky_rehearsal.lambda_cloud import BillLine
from skymark.cloud.machine_script import TIMER
from skymark.model.record import Status
from skymark.rundir.newest import runs_in
from skymark.rundir.reader import open_run
from skymark.store.kinds import runs_at
from tests.cloud.conftest import Client
from tests.cloud.launches import (
    ONE_CELL,
    SMALL,
    Command,
    LastLook,
    Running,
    bill_of,
    bucket_of,
    count,
    launching,
    machine_of,
    reach,
    skymark,
    small_with_profile,
    stored_rounds,
)
from tests.cloud.table import TAKEN_AWAY, Tables
from tests.faults.runs import rounds_in
from tests.stores.s3_server import S3Server

pytestmark = [pytest.mark.cloud, pytest.mark.timeout(3600)]

LONG = 120
"""Rounds of a run that is still going when its machine is taken away: a minute or more. What one
worker measures goes to a store after `skymark.store.storing.HELD_S` at the latest."""

CANARY = "canary0123456789canary0123456789canary01"


@pytest.fixture(scope="module")
def bucket(watched: Client) -> Iterator[S3Server]:
    with bucket_of(watched) as server:
        yield server


@pytest.fixture(autouse=True)
def reached(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process read the bucket too."""
    if "bucket" in request.fixturenames:
        reach(request.getfixturevalue("bucket"), monkeypatch)


def managed_launch(client: Client, bucket: S3Server, name: str, results: Path, *more: str):
    store = ("--managed", "--store", f"s3://results/{name}")
    return launching(client, SMALL, results, *store, *more, **bucket.variables)


def machines_of(client: Client, cluster: str) -> list[BillLine]:
    return sorted(bill_of(client, cluster), key=lambda line: line.began_s)


@pytest.mark.cloud_faults
def test_where_a_machine_is_taken_away_another_one_goes_on_and_repeats_nothing_stored(
    watched: Client,
    bucket: S3Server,
    tables: Tables,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    eventually: Callable[..., None],
    request: pytest.FixtureRequest,
) -> None:
    look = LastLook(tmp_path_factory.mktemp("machines"))
    watched.world.cloud.before_end.append(look)
    running = managed_launch(watched, bucket, "taken", tmp_path, "--rounds", str(LONG))
    request.addfinalizer(running.kill)
    eventually(lambda: len(stored_rounds("s3://results/taken")) >= 3, timeout_s=900, interval_s=1)
    (instance,) = watched.world.rented(running.cluster)
    stored = stored_rounds("s3://results/taken")
    look(instance)  # nobody is told before a machine is taken away
    watched.world.cloud.preempt(instance.id)
    ended = running.end(timeout_s=900)
    assert ended.status == 0, ended.output
    assert "2 machines worked" in ended.output

    (run,) = runs_in(tmp_path)
    ((cell, rounds),) = rounds_in(run).items()
    assert cell == "loading.TAB-1.small.numpy"
    assert len(rounds) == LONG
    assert stored <= {one.started_at.isoformat() for one in rounds}

    row = count(watched, look, ended.cluster, run, planned=LONG)
    assert (row.home, row.measured) == (LONG, LONG + row.lost)
    tables.add(TAKEN_AWAY, row)

    first, second = machines_of(watched, ended.cluster)
    assert (first.preempted, second.preempted) == (True, False)
    assert watched.world.rented() == []
    cost_usd = first.cost_usd + second.cost_usd
    assert f"{ended.cluster} is gone" in ended.output
    assert float(ended.output.partition(" cost $")[2].split(":")[0]) == pytest.approx(
        cost_usd, rel=0.25
    )


@pytest.mark.cloud_faults
def test_what_the_bucket_of_a_managed_job_does_not_take_comes_from_its_machine(
    watched: Client,
    tables: Tables,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    eventually: Callable[..., None],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look = LastLook(tmp_path_factory.mktemp("machines"))
    watched.world.cloud.before_end.append(look)
    with bucket_of(watched) as hanging:
        reach(hanging, monkeypatch)
        running = managed_launch(watched, hanging, "hanging", tmp_path, "--rounds", str(LONG))
        request.addfinalizer(running.kill)
        eventually(lambda: watched.world.rented(running.cluster), timeout_s=600)
        (instance,) = watched.world.rented(running.cluster)
        eventually(instance.booted.is_set, timeout_s=300)
        timer = watched.world.machine(instance).home / TIMER
        eventually((timer / "active").exists, timeout_s=300, interval_s=0.05)
        assert not list(timer.glob("parts/*")), "it was armed with the job alone"
        store = "s3://results/hanging"
        eventually(lambda: len(stored_rounds(store)) >= 3, timeout_s=900, interval_s=1)
        os.kill(hanging.pid, signal.SIGSTOP)
        ended = running.end(timeout_s=900)
    assert ended.status == 1, ended.output
    (run,) = runs_in(tmp_path)
    assert f"skymark export {run} --to {store}" in ended.output
    row = count(watched, look, ended.cluster, run, planned=LONG)
    tables.add("the bucket hangs during a managed run", row)
    assert row.home == LONG
    assert watched.world.rented() == []


@pytest.mark.cloud_faults
def test_a_managed_job_can_be_left_and_ended_later(
    watched: Client, bucket: S3Server, tmp_path: Path
) -> None:
    machine = machine_of(tmp_path, "left", run="echo measuring; sleep 900")
    ours, theirs = pty.openpty()
    store = ("--managed", "--store", "s3://results/left")
    command = ("launch", "cpu", "--infra", "lambda", "--machine", str(machine), "--yes")
    plan = (
        "--scenarios",
        "TAB-1:small",
        "--adapters",
        "numpy",
        "--output",
        str(tmp_path / "results"),
    )
    secret = {"AWS_SESSION_TOKEN": CANARY}
    running = Running(watched, *command, *plan, *store, stdin=theirs, **bucket.variables | secret)
    running.said_at_s("measuring", timeout_s=900)
    plain = watched.world.home / ".sky" / "managed_jobs"
    assert not [path for path in plain.iterdir() if CANARY in path.read_text()]
    os.write(ours, b"leave\n")
    running.process.send_signal(signal.SIGINT)
    ended = running.end()
    assert ended.status == 0, ended.output
    assert f"skymark down {ended.cluster}" in ended.output
    assert len(watched.world.rented(ended.cluster)) == 1

    (shown,) = json.loads(skymark(watched, "status", "--json").output)
    assert shown["status"] == "managed, RUNNING"
    assert shown["hourly_price_usd"] == pytest.approx(0.8)
    assert shown["cost_usd"] > 0
    so_far = skymark(watched, "logs", ended.cluster, "--so-far")
    assert so_far.status == 0, so_far.output
    assert "measuring" in so_far.output
    down = skymark(watched, "down", ended.cluster)
    assert down.status == 0, down.output
    assert watched.world.rented() == []
    assert ended.cluster not in skymark(watched, "status").output


@pytest.mark.cloud_day
def test_several_jobs_share_a_plan_and_the_same_submission_again_begins_those_that_are_missing(
    watched: Client, bucket: S3Server, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    before = len(watched.world.cloud.bill())
    where = ("--profile", "cpu", "--infra", "lambda", "--jobs", "2")
    plan = ("--scenarios", "TAB-1:small", "NLP-1:small", "--adapters", "numpy", "--rounds", "1")
    command = ("submit", "--managed", *where, *plan, "--store", "s3://results/shared", "--yes")
    asleep = machine_of(tmp_path, "asleep", run="sleep 900 # part $SKYMARK_SPLIT")

    def submit(machine: Path, *more: str, status: int = 0) -> Command:
        done = skymark(watched, *command, "--machine", str(machine), *more, **bucket.variables)
        assert done.status == status, done.output
        return done

    shown = submit(asleep, "--dry-run").output
    assert re.search(r"\b2 groups\b.*\b2 managed jobs\b", shown)
    assert "2 × " in shown  # the price is of both
    submit(asleep, "--max-cost", "0.01", status=3)
    assert len(watched.world.cloud.bill()) == before

    first = submit(asleep)
    run_id, names = jobs_of(first)
    assert [name.rpartition("-")[2] for name in names] == ["1of2", "2of2"]
    assert all(f"{name}: " in first.output and "$0.80/h" in first.output for name in names)
    assert "no job" in submit(asleep).output
    assert skymark(watched, "down", names[1]).status == 0
    shown = submit(SMALL, "--dry-run").output
    assert re.search(rf"\b1 of 2\b.*\b{run_id}\b", shown)
    assert re.search(r"\b1 group\b.*\b1 managed job\b", shown)
    assert skymark(watched, "down", names[0]).status == 0
    again = submit(SMALL)
    assert jobs_of(again) == (run_id, [f"{name}-2" for name in names])

    eventually(lambda: not watched.world.rented(), timeout_s=900, interval_s=2)
    home = tmp_path / "home"
    fetched = skymark(
        watched, "fetch", f"s3://results/shared/{run_id}", str(home), **bucket.variables
    )
    assert fetched.status == 0, fetched.output
    run = open_run(home)
    assert {record.cell.scenario for record in run.records} == {"TAB-1", "NLP-1"}
    assert {record.status for record in run.records} == {Status.OK}
    assert run.manifest.finished
    assert len(watched.world.cloud.bill()) == before + 4
    assert "no job" in submit(SMALL).output


def jobs_of(submitted: Command) -> tuple[str, list[str]]:
    """Return the run of a submission, and the names of its jobs."""
    run_id = re.search(r"(\S+): submitted", submitted.output)[1]
    return run_id, re.search(r"skymark down (.+)", submitted.output)[1].split()


def test_no_controller_is_rented(client: Client, tmp_path: Path) -> None:
    before = len(client.world.cloud.bill())
    with bucket_of(client) as bucket:
        refused = managed_launch(client, bucket, "none", tmp_path).end()
    assert refused.status == 2, refused.output
    assert "consolidation_mode: true" in refused.output
    assert len(client.world.cloud.bill()) == before


def test_sky_jobs_launch_runs_one_of_our_yamls_into_the_store_that_it_is_given(
    watched: Client, bucket: S3Server, tmp_path: Path
) -> None:
    secrets = [word for pair in bucket.variables.items() for word in ("--secret", "=".join(pair))]
    profile = ("--env", f"SKYMARK_PROFILE={ONE_CELL}")
    small = str(small_with_profile(tmp_path))
    store = ("--env", "SKYMARK_STORES=s3://results/raw")
    name = ("-n", "raw", "--infra", "lambda")
    said = watched.sky("jobs", "launch", "-y", small, *name, *profile, *store, *secrets)
    assert "read back" in said
    (run,) = runs_at("s3://results/raw")
    assert run.startswith("sky-managed-")
