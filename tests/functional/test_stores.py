"""Results in a store besides the directory: put there, brought back, continued from, finished."""

from __future__ import annotations

import os
import re
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from skymark.model.record import Status
from tests.stores.installed import install_zip_store
from tests.stores.s3_server import s3_server

PLAN = ("run", "--scenarios", "TAB-1", "--adapters", "numpy", "--effort", "check")


@pytest.fixture(scope="module")
def bucket():
    with s3_server() as server:
        server.make_bucket("results")
        yield server


@pytest.fixture(params=[pytest.param("file", marks=pytest.mark.core), "s3", "zip"])
def store(request, tmp_path):
    """An address, and the variables that its client needs; `zip` is of another package."""
    if request.param == "file":
        (tmp_path / "shared").mkdir()
        return (tmp_path / "shared").as_uri(), {}
    if request.param == "zip":
        install_zip_store(tmp_path / "site")
        (tmp_path / "shared").mkdir()
        path = [str(tmp_path / "site"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        return f"zip://{tmp_path}/shared", {"PYTHONPATH": os.pathsep.join(filter(None, path))}
    server = request.getfixturevalue("bucket")
    return f"s3://results/{tmp_path.name}", server.variables


def digests(directory: Path) -> dict[str, str]:
    """Every file of a run but what each machine makes for itself."""
    return {
        path.relative_to(directory).as_posix(): sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file() and path.name not in {".lock", "report.html"}
    }


def test_a_run_is_stored_read_back_and_fetched_as_it_was(skymark, tmp_path, store):
    address, variables = store
    ran = skymark(*PLAN, "--store", address, **variables)
    assert ran.status == 0, ran.stderr
    assert f" {address}/out: 5 files" in ran.stderr
    assert ran.manifest.stores == (f"{address}/out",)
    fetched = skymark("fetch", f"{address}/out", "back", **variables)
    assert fetched.status == 0, fetched.stderr
    assert fetched.stdout == "back: 1 record\n"
    assert digests(tmp_path / "back") == digests(ran.output)
    shown = skymark("report", "back")
    assert shown.status == 0
    assert "numpy" in shown.stdout
    again = skymark("fetch", f"{address}/out", "back", **variables)
    assert again.status == 2
    assert "is not empty" in again.stderr
    nowhere = skymark("fetch", address, "other", **variables)
    assert nowhere.status == 2
    assert "the runs out" in nowhere.stderr


def test_another_machine_continues_from_the_store(skymark, tmp_path, store):
    address, variables = store
    first = skymark(*PLAN, "--store", address, **variables)
    before = first.records
    shutil.rmtree(first.output)
    refused = skymark(*PLAN, "--store", address, **variables)
    assert refused.status == 2
    assert re.search("this plan .*--resume", refused.stderr)
    shutil.rmtree(first.output)
    resumed = skymark(*PLAN, "--store", address, "--resume", **variables)
    assert resumed.status == 0, resumed.stderr
    assert resumed.records == before
    other = skymark(*PLAN, "--seed", "8", "--store", address, "--resume", **variables)
    assert other.status == 2
    assert "another plan" in other.stderr


def test_what_could_not_be_stored_is_named_and_export_finishes_it(skymark, tmp_path, bucket):
    away = {**bucket.variables, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    address = f"s3://results/{tmp_path.name}"
    ran = skymark(*PLAN, "--store", address, "--store-wait", "1", **away)
    assert ran.status == 1
    assert "NOT stored" in ran.stderr
    assert [record.status for record in ran.records.values()] == [Status.OK]
    finish = f"skymark export {ran.output} --to {address}"
    assert finish in ran.stderr
    exported = skymark(*finish.split()[1:], **bucket.variables)
    assert exported.status == 0, exported.stderr
    assert skymark("fetch", f"{address}/out", "back", **bucket.variables).status == 0
    assert digests(tmp_path / "back") == digests(ran.output)


def test_a_store_that_can_never_take_the_run_is_refused_before_anything_is_measured(
    skymark, tmp_path, bucket
):
    ran = skymark(*PLAN, "--store", "s3://absent/x", **bucket.variables)
    assert ran.status == 2
    assert "no bucket absent" in ran.stderr
    assert not ran.output.exists()
    unknown = skymark(*PLAN, "--store", "gopher://x")
    assert unknown.status == 2
    assert "known are s3://" in unknown.stderr


@pytest.mark.core
def test_one_can_look_for_results_where_there_are_none(skymark, tmp_path):
    nothing = skymark("fetch", (tmp_path / "void" / "run").as_uri(), "back")
    assert nothing.status == 2
    assert "holds no run" in nothing.stderr
