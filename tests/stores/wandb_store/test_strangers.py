"""W&B and those who mean ill: damaged runs, hostile servers, keys of others."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import psutil
import pytest

from skymark.cli.main import main
from skymark.store.wandb import store
from skymark.store.wandb.content import RunContent
from skymark.store.wandb.offline import log_offline
from skymark.store.wandb.store import open_run_files
from tests.data.make_run import MACHINE
from tests.stores.finished_run import make_run
from tests.stores.wandb_backend import KEY
from tests.stores.wandb_server import wandb_server
from tests.stores.wandb_store.conftest import PATIENT
from tests.waiting import until

ARTIFACT = f"benchmark-results-{MACHINE.git.commit}"
ADDRESS = f"wandb://lab/skymark/{ARTIFACT}:latest"
RECORD = "records/loading.TAB-1.small.grain.json"
CANARY = "canary-7c2e"
LOOKS = 3
"""How often a process that is soon over is started to be seen."""
OTHERS = ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "GITHUB_TOKEN", "LAMBDA_API_KEY", "PRIVATE")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A server with a run, its directory, and the variables of every process that put it there."""
    base = tmp_path_factory.mktemp("strangers")
    run = make_run(base / "run-1")
    seen = []
    done = threading.Event()

    def look():
        while not done.is_set():
            for child in psutil.Process().children(recursive=True):
                try:
                    seen.append((tuple(child.cmdline()), child.environ()))
                except psutil.Error:
                    continue
            done.wait(0.02)

    def was_seen(module):
        return any(module in words for words, _ in list(seen))

    with wandb_server() as server, pytest.MonkeyPatch.context() as patch:
        for name in OTHERS:
            patch.setenv(name, f"{CANARY}-{name}")
        patch.setenv("SKYMARK_CACHE", str(base / "cache"))
        for name, value in server.variables.items():
            patch.setenv(name, value)
        watching = threading.Thread(target=look)
        watching.start()
        try:
            opened = open_run_files("wandb", "run-1", PATIENT)
            opened.complete(run)
            # It lives until the store is closed.
            until(lambda: was_seen("skymark.store.wandb.service"), 60, "the sight of the service")
            opened.close()
            for number in range(LOOKS):  # the other one is short beside a look at a busy machine
                if not was_seen("skymark.store.wandb.content"):
                    more = RunContent(make_run(base / f"more-{number}"))
                    log_offline(more, (None, "skymark"), PATIENT)
        finally:
            done.set()
            watching.join()
        yield server, run, seen


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Give wandb's processes below commands the time of the other tests."""
    for module in (store, store):
        monkeypatch.setattr(module, "TimeLimits", lambda: PATIENT)


@pytest.fixture
def forged(stored, home, tmp_path, monkeypatch):
    """Change what the server knows; it is as it was afterwards."""
    server, _, _ = stored
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    state, kept = server.directory / "state.json", tmp_path / "kept"
    shutil.copytree(server.directory, kept)
    (artifact,) = [one for one in server.artifacts.values() if one["collection"][2] == ARTIFACT]
    manifest = server.stored(f"manifests/{artifact['manifest']}")

    def change(path, size, content=b"x"):
        server.stop()
        known = json.loads(state.read_text())
        name = f"artifacts/{artifact['id']}/{path}"
        known["blobs"].setdefault(name, {"md5": "x"})["size"] = size
        server.stored(name).write_bytes(content)
        state.write_text(json.dumps(known))
        listed = json.loads(manifest.read_text())
        listed["contents"].setdefault(path, {"digest": "x", "size": len(content)})
        manifest.write_text(json.dumps(listed))
        server.start()

    yield change
    server.stop()
    shutil.copytree(kept, server.directory, dirs_exist_ok=True)
    server.start()


def test_no_process_of_w_and_b_s_client_has_another_key_than_its_own(stored):
    _, _, seen = stored
    ours = [(words, had) for words, had in seen if "tests.stores.wandb_backend" not in words]
    assert [words for words, had in ours if CANARY in "".join(had.values())] == []
    with_key = [words for words, had in ours if KEY in "".join(had.values())]
    assert any("skymark.store.wandb.service" in words for words in with_key)
    assert not [words for words in with_key if "skymark.store.wandb.content" in words]
    assert any("skymark.store.wandb.content" in words for words, _ in ours)


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_a_damaged_run_is_not_logged(stored, home, tmp_path, monkeypatch, capsys, mode):
    server, run, _ = stored
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WANDB_MODE", mode)
    damaged = tmp_path / "run-1"
    shutil.copytree(run, damaged)
    record = damaged / RECORD
    record.write_bytes(record.read_bytes().replace(b"96", b"97", 1))
    before = server.artifacts, server.runs, server.files("lab/skymark/run-1").get(RECORD)
    assert main(["export", str(damaged), "--to", "wandb", "--wait", "30"]) == 1
    assert RECORD in capsys.readouterr().err
    after = server.artifacts, server.runs, server.files("lab/skymark/run-1").get(RECORD)
    assert after == before


@pytest.mark.parametrize("size", [60 << 30, -(60 << 30)])
def test_an_artifact_that_is_larger_than_it_says_is_refused(forged, tmp_path, capsys, size):
    forged("logs/loading.TAB-1.small.grain.log", size)
    assert main(["fetch", ADDRESS, str(tmp_path / "fetched")]) in {1, 2}
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert not (tmp_path / "fetched" / "manifest.json").exists()


def test_an_artifact_s_names_lead_nowhere(forged, home, tmp_path, capsys):
    for path in ("../../outside", "records/../../outside.json", "/tmp/outside"):
        forged(path, 1)
    main(["fetch", ADDRESS, str(tmp_path / "fetched")])
    assert list(tmp_path.rglob("*outside*")) == []
    assert not Path("/tmp/outside").exists()
    assert (tmp_path / "fetched" / "manifest.json").exists(), capsys.readouterr().err
