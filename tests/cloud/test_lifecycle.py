"""`skymark launch` with the real SkyPilot on the simulated cloud, and what may go wrong there."""

from __future__ import annotations

import json
import math
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

from skymark.cloud.known_machines import recall
from skymark.cloud.machine_script import RESULTS
from skymark.model.errors import UnknownMachineError
from skymark.rundir.directory import RunDirectory
from skymark.rundir.newest import runs_in
from tests.cloud.conftest import Client
from tests.cloud.launches import (
    PLAN,
    ROUNDS,
    SMALL,
    Command,
    LastLook,
    Running,
    await_gone,
    bill_of,
    bucket_of,
    count,
    launch,
    launching,
    machine_of,
    skymark,
)
from tests.cloud.secret_places import Arguments, files_with
from tests.cloud.table import Tables

pytestmark = [pytest.mark.cloud, pytest.mark.timeout(3600)]

CANARY = "canary0123456789canary0123456789canary01"
SECRET = ("WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HF_TOKEN")
"""Variables with a secret; the bucket of the tests takes any key."""
BUDGET_USD = 0.2134
"""Pays for 180 s of set-up and run on an A6000, boot and end at their slowest included, and for one
idle minute."""


@dataclass
class Launched:
    """A launch that went well."""

    command: Command
    results: Path
    run: RunDirectory
    arguments: Arguments
    """What was seen of its secrets in process arguments."""
    longest_s: float
    """From the order of the machine to the end of the command."""


@pytest.fixture(scope="module")
def launched(
    client: Client, look: LastLook, tables: Tables, tmp_path_factory: pytest.TempPathFactory
) -> Launched:
    results = tmp_path_factory.mktemp("results")
    secrets = dict.fromkeys(SECRET, CANARY)
    arguments = Arguments(CANARY)
    with bucket_of(client) as bucket:
        variables = bucket.variables | {"WANDB_MODE": "disabled"} | secrets
        store = ("--store", "s3://results")
        running = launching(client, SMALL, results, "--max-cost", "2", *store, **variables)
        command = running.end()
        ended_s = time.time()
    arguments.stop()
    assert command.status == 0, command.output
    (directory,) = runs_in(results)
    tables.add("nothing", count(client, look, command.cluster, directory))
    longest_s = ended_s - running.said_at_s("renting skymark-")
    return Launched(command, results, RunDirectory(directory), arguments, longest_s)


def test_a_launch_brings_whole_results_home(launched: Launched) -> None:
    manifest = launched.run.manifest()
    assert manifest.finished
    assert manifest.counts == {"ok": 1}
    assert all(launched.run.record(cell) is not None for cell in manifest.cells.values())
    sums = dict(line.split("  ")[::-1] for line in _lines(launched.run.path / "SHA256SUMS"))
    assert set(sums) == set(launched.run.files()) - {"SHA256SUMS"}
    for name, digest in sums.items():
        assert sha256((launched.run.path / name).read_bytes()).hexdigest() == digest


def test_a_lost_round_would_be_counted(
    client: Client, look: LastLook, launched: Launched, tmp_path: Path
) -> None:
    less = tmp_path / "less"
    shutil.copytree(launched.run.path, less, ignore=shutil.ignore_patterns("records"))
    row = count(client, look, launched.command.cluster, less)
    assert (row.measured, row.home, row.lost) == (1, 0, 1)


def test_the_machine_is_gone_and_the_bill_is_what_was_said(
    client: Client, launched: Launched
) -> None:
    (line,) = bill_of(client, launched.command.cluster)
    assert line.ended_s is not None
    manifest = launched.run.manifest()
    assert manifest.hourly_price_usd == line.hourly_price_usd
    calls = [call for call in client.world.api.calls if call.path.endswith("/terminate")]
    told_s = min(call.at_s for call in calls if line.id in call.body["instance_ids"])
    billed_s = manifest.price_usd / line.hourly_price_usd * 3600
    # SkyPilot counts whole seconds.
    assert told_s - line.began_s - 2 <= billed_s <= launched.longest_s + 2
    said = re.search(r"cost \$([0-9.]+)", launched.command.output)
    assert float(said[1]) == pytest.approx(manifest.price_usd, abs=1e-4)


def test_nothing_is_remembered_of_a_machine_that_is_gone(launched: Launched) -> None:
    with pytest.raises(UnknownMachineError, match=launched.command.cluster):
        recall(launched.command.cluster)


def test_the_manifest_has_the_commit_that_was_sent(launched: Launched) -> None:
    git = launched.run.manifest().git
    head = _output("git", "rev-parse", "HEAD")
    assert git is not None
    assert git.commit == head


def test_a_secret_is_in_no_output_and_in_no_file(client: Client, launched: Launched) -> None:
    assert CANARY not in launched.command.output
    kept = Path(client.variables()["SKYMARK_CACHE"], "machines")
    assert files_with(CANARY, [launched.results, client.world.home, kept]) == []


def test_a_secret_is_in_no_process_s_arguments(launched: Launched) -> None:
    assert launched.arguments.looks > 10
    assert launched.arguments.seen == set()


def test_what_may_cost_too_much_rents_nothing(client: Client, tmp_path: Path) -> None:
    before = len(client.world.cloud.bill())
    refused = launch(client, SMALL, tmp_path, "--max-cost", "0.01")
    assert refused.status == 3
    assert re.search(r"--max-cost\b.*\b0\.01 USD\b", refused.output)
    assert len(client.world.cloud.bill()) == before


def test_what_results_need_is_tried_before_anything_is_rented(
    client: Client, tmp_path: Path
) -> None:
    before = len(client.world.cloud.bill())
    (tmp_path / "file").write_text("")
    no_directory = launch(client, SMALL, tmp_path / "file" / "results")
    assert no_directory.status == 2, no_directory.output
    assert f"{tmp_path / 'file'} is no directory" in no_directory.output
    with bucket_of(client) as bucket:
        variables = bucket.variables | {"WANDB_MODE": "disabled"}
        store = ("--store", "s3://results", "s3://absent")
        no_bucket = launch(client, SMALL, tmp_path, *store, **variables)
    assert no_bucket.status == 2, no_bucket.output
    assert "s3://absent" in no_bucket.output
    key = {"WANDB_API_KEY": CANARY, "WANDB_BASE_URL": "http://127.0.0.1:9"}
    no_server = launch(client, SMALL, tmp_path, **key)
    assert no_server.status == 1, no_server.output
    assert "W&B (127.0.0.1:9)" in no_server.output
    assert len(client.world.cloud.bill()) == before


def test_nothing_is_rented_where_nobody_can_agree(client: Client, tmp_path: Path) -> None:
    before = len(client.world.cloud.bill())
    command = ("launch", "cpu", "--infra", "lambda", "--machine", str(SMALL))
    refused = skymark(client, *command, *PLAN, *ROUNDS, "--output", str(tmp_path))
    assert refused.status == 2
    assert "add --yes" in refused.output
    assert len(client.world.cloud.bill()) == before


def test_a_dry_run_shows_prices_and_rents_nothing(client: Client, tmp_path: Path) -> None:
    before = len(client.world.cloud.bill())
    shown = launch(client, SMALL, tmp_path, "--dry-run")
    assert shown.status == 0
    assert "gpu_1x_a6000" in shown.output
    assert len(client.world.cloud.bill()) == before


def longest_s(quoted: str) -> int:
    minutes, seconds = re.search(r" to (\d+) min (\d+) s, expected", quoted).groups()
    return 60 * int(minutes) + int(seconds)


def test_the_price_counts_the_minutes_that_the_machine_waits_for_the_connection(
    client: Client, tmp_path: Path
) -> None:
    options = ("--deadline", "10m", "--dry-run")
    alone = launch(client, SMALL, tmp_path, *options)
    stored = launch(client, SMALL, tmp_path, *options, "--store", "s3://bucket/runs")
    # Ten idle minutes, and one where the results are in a bucket too.
    assert longest_s(alone.output) - longest_s(stored.output) == 9 * 60


def test_a_failed_set_up_ends_the_machine(
    client: Client, look: LastLook, tables: Tables, tmp_path: Path
) -> None:
    machine = machine_of(tmp_path, "unfit", setup="echo no disk; exit 3", run="true")
    failed = launch(client, machine, tmp_path / "results")
    assert failed.status == 1
    assert "no disk" in failed.output
    assert re.search(r"\bsetup\b.*\bstatus 3\b", failed.output)
    tables.add("the set-up fails", count(client, look, failed.cluster, None))


@pytest.mark.cloud_faults
def test_when_the_time_is_up_the_results_so_far_come_home(
    client: Client, look: LastLook, tables: Tables, tmp_path: Path
) -> None:
    limits = ("--deadline", "180s", "--max-cost", str(BUDGET_USD), "--idle-minutes", "1")
    late = launch(client, SMALL, tmp_path, "--rounds", "800", *limits)
    assert late.status == 1, late.output
    assert re.search(r"\btime was up\b.*\brun\b", late.output)
    (directory,) = runs_in(tmp_path)
    assert not RunDirectory(directory).manifest().finished
    row = count(client, look, late.cluster, directory, planned=800)
    tables.add("the deadline and the budget are used up", row)
    assert row.home > 0, "the rounds until then are kept"
    assert row.bill_usd < BUDGET_USD


def test_no_capacity_is_said_and_leaves_nothing(
    client: Client, look: LastLook, tables: Tables, tmp_path: Path
) -> None:
    machine = machine_of(tmp_path, "short", run="true")
    client.world.cloud.run_short("gpu_1x_a6000")
    try:
        refused = launch(client, machine, tmp_path / "results")
    finally:
        client.world.cloud.have_plenty()
    assert refused.status == 1
    assert "not be rented" in refused.output
    assert bill_of(client, refused.cluster) == []
    tables.add("no capacity", count(client, look, refused.cluster, None))


@pytest.mark.cloud_faults
def test_a_machine_that_never_boots_is_given_back(
    client: Client, look: LastLook, tables: Tables, tmp_path: Path
) -> None:
    machine = machine_of(tmp_path, "asleep", run="true")
    client.world.cloud.delay_boots(math.inf)
    try:
        late = launch(client, machine, tmp_path / "results", "--boot-timeout", "15s")
    finally:
        client.world.cloud.delay_boots(0)
    assert late.status == 1
    assert re.search(r"\bnot up\b.*\b15 s\b", late.output)
    tables.add("the machine never boots", count(client, look, late.cluster, None))


@pytest.mark.cloud_faults
def test_a_machine_whose_client_was_killed_ends_itself(
    client: Client, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    machine = machine_of(tmp_path, "abandoned", run="sleep 5")
    running = launching(client, machine, tmp_path / "results", "--idle-minutes", "1")
    running.said_at_s("is up after")
    killed = running.kill()
    assert killed.status == -signal.SIGKILL
    (instance,) = client.world.rented(killed.cluster)
    eventually(instance.gone.is_set, timeout_s=400)


def test_an_interrupted_launch_ends_its_machine(client: Client, tmp_path: Path) -> None:
    machine = machine_of(tmp_path, "interrupted", run="echo measuring; sleep 600")
    running = launching(client, machine, tmp_path / "results")
    running.said_at_s("measuring")
    running.process.send_signal(signal.SIGINT)
    interrupted = running.end()
    assert interrupted.status == 130, interrupted.output
    await_gone(client, interrupted.cluster)


def test_a_launch_interrupted_while_it_asks_for_a_machine_leaves_none(
    client: Client, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    machine = machine_of(tmp_path, "regretted", run="sleep 600")
    running = launching(client, machine, tmp_path / "results")
    cluster = running.cluster
    running.process.send_signal(signal.SIGINT)
    interrupted = running.end()
    assert interrupted.status == 130, interrupted.output
    asked = "[one.name for one in sky.api_status()]"
    eventually(lambda: "sky.launch" not in client.ask(asked), timeout_s=200)
    assert client.world.rented(cluster) == []


@pytest.mark.cloud_faults
def test_a_machine_that_does_not_end_is_named_with_its_price_also_at_ctrl_c(
    client: Client, look: LastLook, tables: Tables, tmp_path: Path
) -> None:
    machine = machine_of(tmp_path, "stubborn", run="true")
    client.world.cloud.refuse_to_terminate()
    try:
        running = launching(client, machine, tmp_path / "results", "--idle-minutes", "10")
        running.said_at_s("has not ended (")
        running.process.send_signal(signal.SIGINT)
        running.said_at_s("still ending it")
        running.process.send_signal(signal.SIGINT)
        stubborn = running.end()
        (instance,) = client.world.rented(stubborn.cluster)
        left = json.loads(_said(skymark(client, "status", "--json")))
    finally:
        client.world.cloud.refuse_to_terminate(0)
    assert stubborn.status == 1, stubborn.output
    assert stubborn.output.count("IS STILL THERE") == 2
    told = stubborn.output.splitlines()[-1]
    for fact in (instance.id, "$0.80/h", f"skymark down {stubborn.cluster}"):
        assert fact in told
    assert stubborn.cluster in [one["name"] for one in left]
    ended = skymark(client, "down", stubborn.cluster)
    assert ended.status == 0, ended.output
    row = count(client, look, stubborn.cluster, None)
    tables.add("the provider refuses to end the machine", row)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.cloud_faults
def test_a_machine_at_another_price_than_agreed_is_ended_and_billed_at_it(
    client: Client, tmp_path: Path
) -> None:
    machine = machine_of(tmp_path, "dear", run="sleep 600")
    running = launching(client, machine, tmp_path / "results")
    running.said_at_s("renting skymark-")
    client.world.cloud.set_price("gpu_1x_a6000", 8.0)
    try:
        dear = running.end()
    finally:
        client.world.cloud.set_price("gpu_1x_a6000", 0.8)
    assert dear.status == 1, dear.output
    assert re.search(rf"\b{dear.cluster}\b.*\$8\.00/h.*\$0\.80/h", dear.output)
    await_gone(client, dear.cluster)
    (line,) = bill_of(client, dear.cluster)
    said = re.search(r"cost \$([0-9.]+): .*\$8\.00/h, .*\bprovider\b", dear.output)
    assert float(said[1]) == pytest.approx(line.cost_usd, rel=0.25)


MEASURED = f"{RESULTS}/latest/records/*.json"
"""Records of the newest job's cells, below the home of a machine."""


@pytest.mark.cloud_faults
def test_two_machines_share_a_plan_and_stay_for_another_run(client: Client, tmp_path: Path) -> None:
    results = tmp_path / "results"
    both = ("--num-nodes", "2", "--keep", "--idle-minutes", "10")
    split = ("--split", "weighted:heavy=1x2,light=1x1", "--scenarios", "NLP-1:small", "PC-1:small")
    kept = launch(client, SMALL, results, *both, *split)
    assert kept.status == 0, kept.output
    (first,) = runs_in(results)
    assert RunDirectory(first).manifest().counts == {"ok": 6}
    rented = client.world.rented(kept.cluster)
    measured = {
        one.name.endswith("-head"): list(client.world.machine(one).home.glob(MEASURED))
        for one in rented
    }
    assert {is_head: len(records) for is_head, records in measured.items()} == {True: 4, False: 2}
    assert len(rented) == 2

    command = ("exec", kept.cluster, *PLAN, *ROUNDS, "--output", str(results))
    for again in [Running(client, *command), Running(client, *command)]:  # at the same moment
        ended = again.end()
        assert ended.status == 0, ended.output
    more = set(runs_in(results)) - {first}
    assert [RunDirectory(one).manifest().counts for one in more] == [{"ok": 1}, {"ok": 1}]
    jobs = json.loads(_said(skymark(client, "queue", kept.cluster, "--json")))
    assert [(job["id"], job["status"]) for job in jobs] == [
        (3, "SUCCEEDED"),
        (2, "SUCCEEDED"),
        (1, "SUCCEEDED"),
    ]
    assert "NLP-1:small" in skymark(client, "logs", kept.cluster, "1", "--so-far").output
    assert skymark(client, "logs", kept.cluster, "7", "--so-far").status == 2

    note, back = tmp_path / "note.txt", tmp_path / "back.txt"
    note.write_text("hello")
    assert skymark(client, "rsync", str(note), f"{kept.cluster}:note.txt").status == 0
    assert skymark(client, "rsync", f"{kept.cluster}:note.txt", str(back)).status == 0
    assert back.read_text() == "hello"

    (live,) = json.loads(_said(skymark(client, "status", "--json")))
    assert (live["name"], live["nodes"], live["idle_minutes"]) == (kept.cluster, 2, 10)
    assert live["hourly_price_usd"] == pytest.approx(1.6)
    ended = skymark(client, "down", "--all")
    assert ended.status == 0, ended.output
    await_gone(client, kept.cluster)
    assert json.loads(_said(skymark(client, "status", "--json"))) == []


def _said(command: Command) -> str:
    assert command.status == 0, command.output
    return command.output
