"""Images, built and run: who owns the results, what is kept, what is in them and what is not."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from skymark.model.manifest import Manifest
from skymark.model.record import Record, Status
from skymark.rundir.reader import read_manifest, read_record
from tests.containers.conftest import CANARY, REVISION, Containers

# One worker: the images and the store that they lie in are made once.
pytestmark = [pytest.mark.containers, pytest.mark.timeout(5400)]

CELL = "loading.TAB-1.small.numpy"
SELECTION = ("--scenarios", "TAB-1", "--adapters", "numpy", "--effort", "check")
ROUNDS = 30
"""Some twenty seconds, of which most are left when the first has been seen."""
LEFT = ["/home/skymark:", "", "/var/cache/skymark/datasets:", "datasets", "venvs"]
ENTRY = ("--entrypoint", "skymark-entrypoint")


def owned(path: Path, user: int, group: int) -> Path:
    path.mkdir()
    os.chown(path, user, group)
    return path


def owners(path: Path) -> set[tuple[int, int]]:
    return {(s.st_uid, s.st_gid) for s in (p.lstat() for p in [path, *path.rglob("*")])}


def run_in(results: Path) -> Path:
    """The one run in a directory of results."""
    (only,) = [path for path in results.iterdir() if path.is_dir() and not path.is_symlink()]
    return only


def record_in(results: Path) -> Record:
    path = run_in(results) / "records" / f"{CELL}.json"
    return read_record(path)


def manifest_in(results: Path) -> Manifest:
    return read_manifest(run_in(results))


@pytest.fixture(scope="module")
def secret_run(containers, image, tmp_path_factory):
    """A run with secrets in its environment, into somebody's directory."""
    results = owned(tmp_path_factory.mktemp("somebody") / "results", 12345, 12346)
    secrets = ("WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN")
    options = [part for name in secrets for part in ("-e", f"{name}={CANARY}")]
    options += ["-e", "WANDB_MODE=disabled"]  # nothing is sent: there is no network
    return results, containers.run(image, results, *SELECTION, options=options)


def test_a_complete_run_lies_in_the_mounted_directory(secret_run):
    results, done = secret_run
    assert done.returncode == 0, done.stderr
    assert record_in(results).status is Status.OK
    manifest = manifest_in(results)
    assert manifest.finished
    assert manifest.counts == {Status.OK: 1}
    assert manifest.machine.limits.container == "podman"
    names = {path.name for path in run_in(results).iterdir()}
    assert {"manifest.json", "records", "samples", "logs", "report.html"} <= names


def test_everything_belongs_to_the_owner_of_the_directory(secret_run):
    results, _ = secret_run
    assert owners(results) == {(12345, 12346)}


def test_a_secret_of_the_environment_is_in_no_result_output_image_or_layer(
    secret_run, containers, image
):
    results, done = secret_run
    assert CANARY not in done.stdout + done.stderr
    assert CANARY not in json.dumps(containers.inspect(image))
    # Every layer, those of the stages too, and what is written about images. What podman notes of
    # containers is the caller's own, and not part of an image.
    graph = containers.directory / "graph"
    places = [results, *graph.glob("overlay"), *graph.glob("overlay-[il]*")]
    assert len(places) == 4
    found = subprocess.run(
        ["grep", "--recursive", "--files-with-matches", "--fixed-strings", CANARY, *places],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout) == (1, ""), found.stderr


def test_the_same_command_again_measures_nothing_again(secret_run, containers, image):
    results, _ = secret_run
    before = record_in(results)
    done = containers.run(image, results, *SELECTION)
    assert done.returncode == 0, done.stderr
    assert record_in(results) == before
    assert manifest_in(results).finished


def test_other_options_make_another_run_beside_the_first(secret_run, containers, image):
    results, _ = secret_run
    first = run_in(results)
    done = containers.run(image, results, *SELECTION, "--seed", "8")
    assert done.returncode == 0, done.stderr
    (second,) = [
        path
        for path in results.iterdir()
        if path.is_dir() and not path.is_symlink() and path != first
    ]
    assert (second / "records" / f"{CELL}.json").exists()
    subprocess.run(["rm", "-r", second], check=True)


def test_with_user_the_run_is_that_users(containers, image, tmp_path):
    results = owned(tmp_path / "results", 4242, 4243)
    done = containers.run(image, results, *SELECTION, options=("--user", "4242:4243"))
    assert done.returncode == 0, done.stderr
    assert record_in(results).status is Status.OK
    assert owners(results) == {(4242, 4243)}


@pytest.mark.parametrize(
    ("owner", "options", "ids"),
    [
        ((12345, 12346), (), (12345, 12346)),
        ((12345, 12346), ("--user", "4242:4243"), (4242, 4243)),
        # The machine's root: an ordinary user in its place.
        ((0, 0), (), (1000, 1000)),
        # Root in here is somebody else out there, whose directory it is.
        ((100000, 100000), ("--uidmap", "0:100000:65536", "--gidmap", "0:100000:65536"), (0, 0)),
        (
            (107777, 107777),
            ("--uidmap", "0:100000:65536", "--gidmap", "0:100000:65536"),
            (7777,) * 2,
        ),
    ],
)
def test_the_command_runs_as_the_owner_and_never_as_the_machines_root(
    containers, image, tmp_path, owner, options, ids
):
    results = owned(tmp_path / "results", *owner)
    seen = containers.run(
        image, results, "sh", "-c", "id -u; id -g; id -G", options=(*ENTRY, *options)
    )
    assert seen.stdout.split() == [str(ids[0]), str(ids[1]), str(ids[1])], seen.stderr


def test_of_a_root_owned_directory_only_itself_changes_hands(containers, image, tmp_path):
    results = owned(tmp_path / "results", 0, 0)
    (results / "older").touch()
    containers.run(image, results, "true", options=ENTRY)
    assert (results.stat().st_uid, results.stat().st_gid) == (1000, 1000)
    assert (results / "older").stat().st_uid == 0


def test_the_command_holds_no_capabilities_and_cannot_gain_any(containers, image, tmp_path):
    results = owned(tmp_path / "results", 12345, 12345)
    seen = containers.run(image, results, "cat", "/proc/self/status", options=ENTRY)
    status = dict(line.split(":", 1) for line in seen.stdout.splitlines())
    assert {int(status[name], 16) for name in ("CapEff", "CapPrm", "CapAmb")} == {0}
    assert status["NoNewPrivs"].strip() == "1"


def test_a_request_to_stop_keeps_what_was_measured_and_the_next_run_goes_on(
    containers, image, tmp_path
):
    results = owned(tmp_path / "results", 12345, 12346)
    selection = (*SELECTION, "--rounds", str(ROUNDS))
    detached = ("--detach", "--name", "stopped")
    command = containers.run_command(image, results, *selection, options=detached)
    command.remove("--rm")
    containers.call(*command)
    await_file(results, f"*/rounds/{CELL}/1.json")
    containers.call("podman", "stop", "--time", "60", "stopped")
    status = containers.call("podman", "wait", "stopped").stdout.strip()
    errors = containers.call("podman", "logs", "stopped").stderr
    containers.call("podman", "rm", "stopped")
    assert status == "130", errors
    assert "interrupted" in errors
    assert not manifest_in(results).finished
    kept = {
        int(path.stem): json.loads(path.read_bytes())["result"]["started_at"]
        for path in (run_in(results) / "rounds" / CELL).glob("*.json")
    }
    assert 1 < len(kept) < ROUNDS
    done = containers.run(image, results, *selection)
    assert done.returncode == 0, done.stderr
    started = {
        one["round"]: one["started_at"]
        for one in record_in(results).model_dump(mode="json")["rounds"]
    }
    assert sorted(started) == list(range(ROUNDS))
    assert {number: started[number] for number in kept} == kept


def await_file(directory: Path, pattern: str, timeout_s: float = 300) -> None:
    """Wait until a file is there: a container gives no other sign of how far it is."""
    end = time.monotonic() + timeout_s
    while not list(directory.glob(pattern)):
        assert time.monotonic() < end, f"no {pattern} after {timeout_s} s"
        time.sleep(0.05)


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_without_the_accelerator_nothing_starts(containers, image, tmp_path, platform):
    results = owned(tmp_path / "results", 12345, 12346)
    done = containers.run(image, results, "--platform", platform, *SELECTION)
    assert done.returncode == 2
    assert f"no {platform.upper()} here" in done.stderr
    assert list(results.iterdir()) == []


def test_labels_tell_the_commit_and_nothing_probes_the_container(containers, image):
    inspected = containers.inspect(image)
    labels = inspected["Labels"]
    assert labels["org.opencontainers.image.revision"] == REVISION
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert not inspected.get("HealthCheck")
    assert "Healthcheck" not in inspected["Config"]


def test_environments_are_in_the_image_share_their_files_and_leave_no_cache(
    containers, image, tmp_path
):
    results = owned(tmp_path / "results", 12345, 12346)
    script = """
    cd /var/cache/skymark/venvs
    ls
    skymark env build numpy grain | sort
    stat -c %h */lib/python3.11/site-packages/numpy/__init__.py
    ls -A "$HOME" /var/cache/skymark/datasets
    ls /var/cache/skymark
    """
    seen = containers.run(image, results, "sh", "-ec", script, options=ENTRY)
    assert seen.returncode == 0, seen.stderr
    grain, numpy, *rest = seen.stdout.splitlines()
    place = "/var/cache/skymark/venvs"
    assert rest == [f"grain: {place}/{grain}", f"numpy: {place}/{numpy}", "2", "2", *LEFT]


def test_a_change_of_skymarks_own_code_keeps_the_layer_of_environments(
    containers: Containers, image, context
):
    before = containers.inspect(image)["RootFS"]["Layers"]
    changed = context / "src" / "skymark" / "suites" / "loading" / "options.py"
    changed.write_text(changed.read_text() + "# changed\n")
    again = containers.inspect(containers.build("cpu", context, "numpy grain"))
    after = again["RootFS"]["Layers"]
    # The wheel, what it installs, the runners and the entry point.
    assert after[:-4] == before[:-4]
    assert after[-4:] != before[-4:]
