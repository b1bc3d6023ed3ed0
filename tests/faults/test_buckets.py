"""Buckets that answer badly, slowly or not at all while a run sends its results there."""

from __future__ import annotations

import re
import shlex
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from skymark.rundir.directory import RunDirectory
from skymark.rundir.layout import SUMS
from skymark.rundir.reader import open_run
from tests.faults.runs import Case, skymark
from tests.faults.test_killed import kill_all
from tests.stores.faulty_proxy import faulty_proxy
from tests.stores.s3_server import s3_server
from tests.waiting import until

WAIT_S = 3.0
"""How long the end of a run waits for a bucket that does not recover."""


@pytest.fixture(scope="module")
def server():
    with s3_server() as running:
        running.make_bucket("results")
        yield running


@pytest.fixture
def proxy(server):
    with faulty_proxy(server.endpoint) as running:
        yield running


@pytest.fixture
def case(tmp_path, server, proxy):
    """A run that is to be stored in a bucket, through a proxy that can go wrong."""
    made = Case(tmp_path, variables=server.variables | {"AWS_ENDPOINT_URL": proxy.endpoint})
    made.arguments = (*made.arguments, "--store", address_of(tmp_path))
    return made


def address_of(directory: Path) -> str:
    return f"s3://results/{directory.name}"


def digests(directory: Path) -> dict[str, str]:
    """Every file of a run; what each machine makes for itself is none of them."""
    return {
        name: sha256((directory / name).read_bytes()).hexdigest()
        for name in [*RunDirectory(directory).files(), SUMS]
    }


def finish_as_told(case: Case, stderr: str) -> None:
    """Run the very command that the run gave for what it could not store."""
    told = re.search(r"finish with: (skymark export .*)", stderr)
    assert told, stderr
    words = shlex.split(told[1])[1:]
    done = skymark(case.directory, *words, **case.variables)
    assert done.returncode == 0, done.stderr


def fetched(case: Case, address: str) -> Path:
    """Fetch what is stored into a new directory, and compare every file with what is on disk."""
    back = case.directory / "back"
    done = skymark(case.directory, "fetch", address, str(back), **case.variables)
    assert done.returncode == 0, done.stderr
    assert digests(back) == digests(case.output)
    return back


def row_in_the_bucket(case: Case):
    """Count in what is stored."""
    back = fetched(case, f"{address_of(case.directory)}/out")
    case.kept = case.on_disk()
    case.output = back
    return case.row()


FAULTS = {
    "bucket answers 500": lambda proxy: proxy.answer(500),
    "bucket answers 429": lambda proxy: proxy.answer(429),
    "bucket answers 403 in the middle": lambda proxy: proxy.answer(403),
    "bucket answers slowly": lambda proxy: proxy.delay(1.0),
    "connection cut in the middle of an upload": lambda proxy: proxy.cut_uploads(64, method="PUT"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bucket_that_recovers_in_time_gets_everything(case, proxy, table, chance, fault):
    at = chance.randint(1, 5)
    process = case.start_and_hold(at)
    FAULTS[fault](proxy)
    case.release()
    until(lambda: len(case.begun()) >= at + 2, what=f"round {at + 2}")
    proxy.heal()
    status, stderr = case.finish(process)
    assert status == 0, stderr
    assert "read back" in stderr
    row = row_in_the_bucket(case)
    table.add(fault, row)
    assert (row.lost, row.repeated) == (0, 0)


@pytest.mark.parametrize("fault", [name for name in FAULTS if "slowly" not in name])
def test_a_bucket_that_does_not_recover_is_filled_by_the_command_that_the_run_gives(
    case, proxy, table, chance, fault
):
    # In the fifth round, the bucket has rounds that records replace. They must go from there.
    at = 5 if "500" in fault else chance.randint(1, 6)
    process = case.start_and_hold(at, "--store-wait", str(WAIT_S))
    FAULTS[fault](proxy)
    case.release()
    status, stderr = case.finish(process, timeout=300)
    assert status == 1, stderr
    assert len(open_run(case.output).records) == 4
    proxy.heal()
    finish_as_told(case, stderr)
    row = row_in_the_bucket(case)
    table.add(fault, row)
    assert (row.lost, row.repeated) == (0, 0)


def test_a_bucket_that_refuses_from_the_start_is_said_before_anything_is_measured(
    case, proxy, table
):
    proxy.answer(403)
    status, stderr = case.run("--store-wait", "900", timeout=300)
    assert status == 2, stderr
    assert not case.begun()
    proxy.heal()
    status, stderr = case.run()
    assert status == 0, stderr
    row = row_in_the_bucket(case)
    table.add("bucket answers 403 from the start", row)
    assert (row.lost, row.repeated) == (0, 0)


def test_a_machine_that_replaces_a_killed_one_continues_from_the_bucket(
    case, server, moments, chance, table, tmp_path
):
    case.variables = dict(server.variables)
    original = case.arguments
    lags = []
    for moment in range(moments):
        here = tmp_path / f"{tmp_path.name}-{moment}"
        here.mkdir()
        case = Case(here, variables=dict(server.variables))
        case.arguments = (*original[:-1], address_of(here))
        process = case.start()
        at = chance.randint(5 if moment < 2 else 2, 7)
        until(lambda case=case, at=at: len(case.begun()) >= at, what=f"round {at}")
        kill_all(process)
        case.finish(process)
        on_the_dead = sum(map(len, case.on_disk().values()))
        shutil.rmtree(case.output)
        skymark(here, "fetch", f"{address_of(here)}/out", str(here / "seen"), **case.variables)
        in_bucket = case.on_disk(here / "seen")
        waiting = on_the_dead - sum(map(len, in_bucket.values()))
        lags += [waiting] if at >= 5 else []
        status, stderr = case.run("--resume")
        assert status == 0, stderr
        case.kept = in_bucket
        kept = case.row()
        assert kept.lost == 0
        row = row_in_the_bucket(case)
        table.add("machine replaced, continued from the bucket", row)
        assert row.lost == 0
        assert row.repeated <= 1 + waiting
    # A single slow answer delays uploads by the rounds of one worker.
    assert min(lags) <= 2, "uploads lag behind the measuring"
