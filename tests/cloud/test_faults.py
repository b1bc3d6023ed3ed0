"""What breaks in the middle of a launch: nothing measured is lost, and no machine is left."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sky_rehearsal.machine import Machine
from skymark.cloud.machine_script import RESULTS, TIMER
from skymark.model.record import RoundResult
from skymark.store.kinds import runs_at
from skymark.store.storing import STALLED
from tests.cloud.conftest import Client
from tests.cloud.launches import (
    SMALL,
    LastLook,
    Running,
    bill_of,
    bucket_of,
    count,
    launch,
    launching,
    reach,
    skymark,
    stored_rounds,
)
from tests.cloud.table import HEAD_TAKEN_AWAY, NODE_TAKEN_AWAY, NODE_TAKEN_AWAY_ALONE, Tables
from tests.stores.s3_server import S3Server

pytestmark = [pytest.mark.cloud, pytest.mark.cloud_faults, pytest.mark.timeout(3600)]


LONG = 40
"""Rounds of a run that is still going when something is done to it."""
LONGER = 250
"""Rounds that go on for longer than a cable is pulled and SkyPilot takes to notice it is back, and
longer than anything else that ends a run may be late."""

SENT = 60
"""Rounds of a run that goes on when some are in the bucket. What one worker measures goes to a
store after `skymark.store.storing.HELD_S` at the latest."""
LEAST_SENT = 3
"""Rounds of a machine in the bucket when it is taken away."""

CUT_S = 45.0
"""Longer than SkyPilot's SSH connections wait for an answer: 3 × 5 s."""

FILL = "fallocate -l $(df --output=avail -B1 /home | tail -1) /home/f; cat /dev/zero >> /home/f"


def long_launch(
    client: Client, results: Path, *more: str, rounds: int = LONG, **variables: str
) -> Running:
    return launching(client, SMALL, results, "--rounds", str(rounds), *more, **variables)


def machine_of(client: Client, running: Running) -> Machine:
    """Wait until the machine is up."""
    running.said_at_s("is up after")
    (instance,) = client.world.rented(running.cluster)
    return client.world.machine(instance)


def await_rounds(machine: Machine, eventually: Callable[..., None], least: int = 3) -> None:
    """Wait until some rounds are on a machine's disk."""
    rounds = f"{RESULTS}/*/rounds/*/*.json"
    found = machine.home.glob  # also by the link to the newest run
    eventually(lambda: len({one.resolve() for one in found(rounds)}) >= least, timeout_s=400)


def run_in(results: Path) -> Path:
    (directory,) = (
        one
        for one in results.iterdir()
        if not one.name.startswith(".") and not one.is_symlink() and not one.is_symlink()
    )
    return directory


def test_ssh_that_is_cut_and_comes_back_costs_nothing(
    client: Client, look: LastLook, tables: Tables, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    running = long_launch(client, tmp_path, rounds=LONGER)
    machine = machine_of(client, running)
    await_rounds(machine, eventually)
    machine.disconnect()
    time.sleep(CUT_S)
    machine.connect()
    ended = running.end()
    assert ended.status == 0, ended.output
    row = count(client, look, ended.cluster, run_in(tmp_path), planned=LONGER)
    tables.add("SSH is cut during the run, and comes back", row)
    assert row.home == LONGER


def test_an_api_server_that_restarts_costs_nothing(
    client: Client, look: LastLook, tables: Tables, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    running = long_launch(client, tmp_path)
    await_rounds(machine_of(client, running), eventually)
    client.world.api_server.stop()
    client.world.api_server.start()
    ended = running.end()
    assert ended.status == 0, ended.output
    row = count(client, look, ended.cluster, run_in(tmp_path), planned=LONG)
    tables.add("SkyPilot's API server restarts during the run", row)
    assert row.home == LONG


def test_an_api_server_that_never_comes_back_costs_nothing(
    client: Client, look: LastLook, tables: Tables, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    running = long_launch(client, tmp_path)
    await_rounds(machine_of(client, running), eventually)
    client.world.api_server.stop()
    try:
        ended = running.end(timeout_s=800)
    finally:
        client.world.api_server.start()
    assert ended.status == 0, ended.output
    assert f"{ended.cluster} is gone" in ended.output
    row = count(client, look, ended.cluster, run_in(tmp_path), planned=LONG)
    tables.add("SkyPilot's API server is gone for good during the run", row)
    assert row.home == LONG


def test_a_full_disk_ends_the_run_and_what_it_has_comes_home(
    client: Client, look: LastLook, tables: Tables, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    running = long_launch(client, tmp_path, rounds=LONGER)
    machine = machine_of(client, running)
    await_rounds(machine, eventually)
    assert "No space left" in machine.run(FILL).stderr
    ended = running.end()
    assert ended.status == 1, ended.output
    row = count(client, look, ended.cluster, run_in(tmp_path), planned=LONGER)
    tables.add("the disk is full during the run", row)
    assert 0 < row.home < LONGER


def test_a_run_that_fails_brings_home_what_it_measured(
    client: Client, look: LastLook, tables: Tables, tmp_path: Path
) -> None:
    machine = tmp_path / "failing.yaml"
    text = SMALL.read_text()
    assert "\n  exec ~/skymark-venv" in text
    machine.write_text(text.replace("\n  exec ~/sky", "\n  ~/sky") + "\n  exit 7\n")
    results = tmp_path / "results"
    failed = launch(client, machine, results)
    assert failed.status == 1, failed.output
    assert "status 7" in failed.output
    row = count(client, look, failed.cluster, run_in(results))
    tables.add("the run fails", row)
    assert row.home == 1


def test_an_interrupted_run_brings_home_what_it_measured(
    client: Client, look: LastLook, tables: Tables, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    running = long_launch(client, tmp_path, rounds=LONGER)
    await_rounds(machine_of(client, running), eventually)
    running.process.send_signal(signal.SIGINT)
    ended = running.end()
    assert ended.status == 130, ended.output
    row = count(client, look, ended.cluster, run_in(tmp_path), planned=LONGER)
    tables.add("Ctrl-C during the run", row)
    assert 0 < row.home < LONGER


def test_a_closed_terminal_and_an_interrupted_way_home_cost_nothing(
    client: Client, look: LastLook, tables: Tables, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    running = long_launch(client, tmp_path)
    await_rounds(machine_of(client, running), eventually)
    running.process.send_signal(signal.SIGHUP)
    during_the_way_home(client, running, tmp_path, eventually)
    running.process.send_signal(signal.SIGINT)
    ended = running.end()
    assert ended.status == 130, ended.output
    (log,) = tmp_path.glob("*.log")
    assert str(log) in ended.output, "it is named before"
    said = log.read_text()
    assert "terminal was closed" in said
    assert "Ctrl-C again leaves" in said
    assert f"{ended.cluster} is gone" in said
    row = count(client, look, ended.cluster, log.with_suffix(""), planned=LONG)
    tables.add("the terminal is closed, then Ctrl-C during the fetch", row)
    assert row.home == LONG


def test_a_machine_whose_results_come_nowhere_is_kept_until_they_are_fetched(
    client: Client, look: LastLook, tables: Tables, tmp_path: Path
) -> None:
    failing = tmp_path / "programs" / "rsync"
    failing.parent.mkdir()
    failing.write_text("#!/bin/sh\necho 'No space left on device (28)' >&2\nexit 11\n")
    failing.chmod(0o755)
    path = f"{failing.parent}:{os.environ['PATH']}"
    kept = launch(client, SMALL, tmp_path / "results", PATH=path)
    assert kept.status == 1, kept.output
    name = kept.cluster
    assert re.search(rf"\b{name} IS KEPT\b.*\$0\.80/h", kept.output)
    assert f"skymark down {name}" in kept.output
    assert kept.output.count("No space left on device") == 3, "each directory was tried"
    assert len(client.world.rented(name)) == 1
    assert f"the name {name} is in use" in claimed(client, name, tmp_path / "another")
    other_user = {"SKYPILOT_USER_ID": "abcd1234"}
    assert f"the name {name} is in use" in claimed(client, name, tmp_path / "another", **other_user)

    (fetch,) = (line for line in kept.output.splitlines() if "skymark collect" in line)
    _, cluster, run_id, *_ = fetch.partition("skymark ")[2].split()
    home = tmp_path / "home"
    fetched = skymark(client, "collect", cluster, run_id, "--output", str(home), "--down")
    assert fetched.status == 0, fetched.output
    row = count(client, look, name, run_in(home))
    tables.add("no directory takes the results", row)
    assert row.home == 1


def test_of_two_clients_that_take_a_name_at_one_moment_one_is_refused(
    client: Client, tmp_path: Path
) -> None:
    """They are two users of one API server, and neither knows of the other's machines."""
    name = f"skymark-cpu-{secrets.token_hex(3)}"
    known = [
        {"SKYPILOT_USER_ID": f"abcd123{user}", "SKYMARK_CACHE": str(tmp_path / f"cache{user}")}
        for user in (1, 2)
    ]
    running = [
        launching(client, SMALL, tmp_path / f"results{user}", "-c", name, **variables)
        for user, variables in enumerate(known)
    ]
    first, second = sorted((one.end() for one in running), key=lambda ended: ended.status)
    assert (first.status, second.status) == (0, 2), first.output + second.output
    assert f"the name {name} is in use" in second.output
    assert len(bill_of(client, name)) == 1
    assert sorted(len(list(tmp_path.glob(f"results{user}/*/records/*"))) for user in (0, 1)) == [
        0,
        1,
    ]


def claimed(client: Client, cluster: str, cache: Path, **variables: str) -> str:
    """Claim a machine's name as a client with another memory does; returns what it says."""
    program = (
        "import sys; from skymark.cloud.lifecycle.clusters import NewCluster; "
        "from skymark.cloud.rented_run import RentedRun; "
        "from skymark.model.requests import Machine; "
        "run = {'profile': 'cpu', 'plan_hash': '', 'run_id': '', 'machine': Machine()}; "
        "from skymark.cloud.lifecycle.stages import Quoted; "
        "NewCluster().claim(Quoted(RentedRun(name=sys.argv[1], **run), None, {}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, cluster],
        env={**client.variables(), "SKYMARK_CACHE": str(cache), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr


def test_a_provider_that_limits_requests_is_asked_again(
    client: Client, look: LastLook, tables: Tables, tmp_path: Path
) -> None:
    before = len(client.world.api.calls)
    client.world.api.limit_rate(2)
    running = launching(client, SMALL, tmp_path)
    running.said_at_s("results verified")
    client.world.api.limit_rate(2)
    ended = running.end()
    assert ended.status == 0, ended.output
    statuses = [call.status for call in client.world.api.calls[before:]]
    assert statuses.count(429) == 4
    row = count(client, look, ended.cluster, run_in(tmp_path))
    tables.add("the provider limits the rate of requests", row)
    assert row.home == 1


def says_yes_and_does_nothing(client: Client) -> None:
    client.world.cloud.ignore_terminations(2)


def lists_nothing(client: Client) -> None:
    client.world.cloud.list_nothing(25)


def breaks_down(client: Client) -> None:
    client.world.api.break_down(30)


def server_is_gone(client: Client) -> None:
    client.world.api_server.stop()


@pytest.mark.parametrize(
    ("fault", "happens"),
    [
        ("the provider says that it ends the machine, and does not", says_yes_and_does_nothing),
        ("the provider lists no machine at the end", lists_nothing),
        ("the provider answers 500 at the end", breaks_down),
        ("SkyPilot's API server is gone for good at the end", server_is_gone),
    ],
)
def test_a_machine_is_ended_and_proved_gone_whatever_happens_then(
    client: Client,
    look: LastLook,
    tables: Tables,
    tmp_path: Path,
    eventually: Callable[..., None],
    request: pytest.FixtureRequest,
    fault: str,
    happens: Callable[[Client], None],
) -> None:
    running = launching(client, SMALL, tmp_path)
    request.addfinalizer(running.process.kill)
    if happens is server_is_gone:  # before anybody can tell it
        running.said_at_s("is up after")
        during_the_way_home(client, running, tmp_path, eventually)
    else:
        running.said_at_s("results verified")
    happens(client)
    (instance,) = client.world.rented(running.cluster)
    try:
        running.said_at_s(" is gone")
        gone_s = time.time()
        ended = running.end()
    finally:
        client.world.cloud.ignore_terminations(0)
        if happens is server_is_gone:
            client.world.api_server.start()
    assert ended.status == 0, ended.output
    assert instance.ended_s is not None, ended.output
    assert instance.ended_s <= gone_s
    row = count(client, look, ended.cluster, run_in(tmp_path))
    tables.add(fault, row)
    assert row.home == 1


@pytest.fixture(scope="module")
def bucket(client: Client) -> Iterator[S3Server]:
    """A bucket that the machines reach."""
    with bucket_of(client) as server:
        yield server


def test_what_a_bucket_that_hangs_does_not_take_comes_home(
    client: Client, look: LastLook, tables: Tables, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    with bucket_of(client) as hanging:
        store = ("--store", "s3://results/hanging")
        running = long_launch(client, tmp_path, *store, **hanging.variables)
        await_rounds(machine_of(client, running), eventually)
        os.kill(hanging.pid, signal.SIGSTOP)
        ended = running.end()
    assert ended.status == 1, ended.output
    assert STALLED in ended.output
    run = run_in(tmp_path)
    finish = f"skymark export {run} --to s3://results/hanging"
    assert re.search(rf"\bNOT STORED\b.*{re.escape(finish)}", ended.output)
    row = count(client, look, ended.cluster, run, planned=LONG)
    tables.add("the bucket hangs during the run", row)
    assert row.home == LONG


def while_renting(
    client: Client, running: Running, _: Path, eventually: Callable[..., None]
) -> None:
    client.world.cloud.delay_boots(10)
    try:
        eventually(lambda: client.world.rented(running.cluster), timeout_s=200)
    finally:
        client.world.cloud.delay_boots(0)
    (instance,) = client.world.rented(running.cluster)
    assert not instance.booted.is_set()


def during_set_up(
    client: Client, running: Running, results: Path, eventually: Callable[..., None]
) -> None:
    machine = machine_of(client, running)
    eventually(lambda: list(machine.home.glob("skymark-venv")), timeout_s=400)
    assert not list(machine.home.glob(f"{RESULTS}/*/manifest.json"))


def during_the_run(
    client: Client, running: Running, results: Path, eventually: Callable[..., None]
) -> None:
    await_rounds(machine_of(client, running), eventually)


def during_the_way_home(
    client: Client, running: Running, results: Path, eventually: Callable[..., None]
) -> None:
    eventually(lambda: list(results.glob(".*.incoming")), timeout_s=600, interval_s=0.001)


@pytest.mark.parametrize(
    ("fault", "moment"),
    [
        ("the client is killed while the machine is rented", while_renting),
        ("the client is killed during the set-up", during_set_up),
        ("the client is killed during the run", during_the_run),
        ("the client is killed during the fetch", during_the_way_home),
    ],
)
def test_a_killed_client_leaves_a_run_that_ends_in_the_bucket_and_a_machine_that_ends_itself(
    client: Client,
    bucket: S3Server,
    look: LastLook,
    tables: Tables,
    tmp_path: Path,
    eventually: Callable[..., None],
    fault: str,
    moment: Callable[..., None],
) -> None:
    results = tmp_path / "results"
    address = f"s3://results/{moment.__name__}"
    running = launching(
        client, SMALL, results, "--rounds", "10", "--store", address, **bucket.variables
    )
    moment(client, running, results, eventually)
    assert running.kill().status == -signal.SIGKILL, running.output
    (instance,) = client.world.rented(running.cluster)
    eventually(instance.gone.is_set, timeout_s=600)

    (run,) = look.runs(instance.id)
    home = tmp_path / "home"
    fetched = skymark(client, "fetch", f"{address}/{run.name}", str(home), **bucket.variables)
    assert fetched.status == 0, fetched.output
    row = count(client, look, running.cluster, home, planned=10)
    tables.add(fault, row)
    assert row.home == 10
    assert running.cluster not in skymark(client, "status").output


def test_a_machine_ends_itself_when_client_and_api_server_die_before_its_set_up(
    client: Client, look: LastLook, tables: Tables, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    soon = ("--idle-minutes", "1", "--boot-timeout", "3m")
    running = launching(client, SMALL, tmp_path, *soon)
    eventually(lambda: client.world.rented(running.cluster), timeout_s=300)
    (instance,) = client.world.rented(running.cluster)
    eventually(instance.booted.is_set, timeout_s=300)
    machine = client.world.machine(instance)
    # SkyPilot's credentials must be there too: without them a machine can only switch itself off.
    for file in (f"{TIMER}/active", ".sky/sky_ray.yml", ".lambda_cloud/lambda_keys"):
        eventually((machine.home / file).exists, timeout_s=300, interval_s=0.01)
    client.world.api_server.stop()
    assert running.kill().status == -signal.SIGKILL
    assert not list(machine.home.glob(f"{RESULTS}/*.outcome"))
    try:
        eventually(instance.gone.is_set, timeout_s=800)
    finally:
        client.world.api_server.start()
    tables.add(
        "the client and SkyPilot's API server are killed before the set-up",
        count(client, look, running.cluster, None),
    )


TWO = ("--num-nodes", "2", "--scenarios", "NLP-1:small")
"""Options of a launch on two machines, each with one of the two cells."""


@pytest.fixture
def launch_on_two(
    client: Client,
    bucket: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Callable[[str], Running]:
    """Launch on two machines, which store in the bucket that this process reads, too."""

    def launch(store: str) -> Running:
        reach(bucket, monkeypatch)
        running = long_launch(
            client, tmp_path, *TWO, "--store", store, rounds=SENT, **bucket.variables
        )
        request.addfinalizer(running.process.kill)
        return running

    return launch


def lose_one(
    client: Client,
    look: LastLook,
    running: Running,
    store: str,
    eventually: Callable[..., None],
    *,
    head: bool = False,
) -> None:
    """Take one machine away when rounds of both are in the bucket, and the other goes on."""
    running.said_at_s("is up after")
    instances = client.world.rented(running.cluster)
    (lost,) = (one for one in instances if one.name.endswith("-head") is head)
    (left,) = (one for one in instances if one is not lost)
    await_rounds(client.world.machine(left), eventually)
    of_lost = client.world.machine(lost).home.glob
    rounds = f"{RESULTS}/*/rounds/*/*.json"

    def sent() -> bool:
        there = [json.loads(path.read_bytes())["result"] for path in of_lost(rounds)]
        began = {RoundResult.model_validate(one).started_at.isoformat() for one in there}
        return len(began & stored_rounds(store)) >= LEAST_SENT

    eventually(sent, timeout_s=600, interval_s=0.5)
    met = (client.world.machine(left).home / TIMER).glob("met-*")
    assert list(met), "its timer never reached the other one"
    look(lost)  # nobody is told before a machine is taken away
    client.world.cloud.preempt(lost.id)


@pytest.mark.parametrize(("fault", "head"), [(NODE_TAKEN_AWAY, False), (HEAD_TAKEN_AWAY, True)])
def test_of_two_machines_what_the_one_that_is_left_measures_comes_home(
    client: Client,
    launch_on_two: Callable[[str], Running],
    look: LastLook,
    tables: Tables,
    tmp_path: Path,
    eventually: Callable[..., None],
    fault: str,
    head: bool,
) -> None:
    store = f"s3://results/two-{head}"
    running = launch_on_two(store)
    lose_one(client, look, running, store, eventually, head=head)
    ended = running.end(timeout_s=900)
    assert ended.status == 1, ended.output
    assert re.search(r"\blost machines\b.*\b1\b.*\b2\b", ended.output)
    assert f"node {0 if head else 1} is gone" in ended.output
    assert "skymark launch cpu --scenarios" in ended.output
    row = count(client, look, ended.cluster, run_in(tmp_path), planned=2 * SENT)
    tables.add(fault, row)
    # SkyPilot's job is the head's: without it, the other one is told to stop.
    assert bool(re.search(r"\bnode 1: .*\bstopped\b", ended.output)) is head
    assert row.home >= LEAST_SENT + (1 if head else SENT), ended.output


def test_of_two_machines_the_one_that_is_left_ends_itself_without_its_client(
    client: Client,
    bucket: S3Server,
    launch_on_two: Callable[[str], Running],
    look: LastLook,
    tables: Tables,
    tmp_path: Path,
    eventually: Callable[..., None],
) -> None:
    store = "s3://results/two-alone"
    running = launch_on_two(store)
    lose_one(client, look, running, store, eventually)
    running.kill()
    eventually(lambda: not client.world.rented(running.cluster), timeout_s=900)
    (run,) = runs_at(store)
    home = tmp_path / "home"
    fetched = skymark(client, "fetch", f"{store}/{run}", str(home), **bucket.variables)
    assert fetched.status == 0, fetched.output
    row = count(client, look, running.cluster, home, planned=2 * SENT)
    tables.add(NODE_TAKEN_AWAY_ALONE, row)
    assert row.home >= SENT + LEAST_SENT
