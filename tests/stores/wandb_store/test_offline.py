"""W&B without a key: the run on disk, read back from its ``.wandb`` file, and uploaded later."""

from __future__ import annotations

import pytest

from skymark.model.errors import StoreRefusedError, StoreUnavailableError
from skymark.rundir.directory import RunDirectory
from skymark.store.wandb.content import RunContent, home_of
from skymark.store.wandb.offline import log_offline, read_offline
from tests.stores.wandb_backend import ENTITY, KEY
from tests.stores.wandb_store.conftest import HURRIED


def offline_path(run):
    (found,) = (home_of(RunContent(run)) / "wandb").glob("offline-run-*")
    return found


def test_a_run_without_a_key_is_offline_and_says_what_to_do(opened, run, home):
    store = opened()
    assert not store.live
    told = store.complete(run)
    for value in ("offline", "WANDB_API_KEY", str(offline_path(run))):
        assert value in told
    assert told.endswith(f": skymark export {run} --to wandb")
    assert [path for path in home.rglob("*") if path.is_file()] == []
    entries = read_offline(offline_path(run), home_of(RunContent(run)), 120)
    (artifact,) = [
        one["artifact"]
        for one in entries
        if one["type"] == "artifact" and one["artifact"]["type"] == "benchmark-results"
    ]
    logged = {one["path"]: one["digest"] for one in artifact["manifest"]["contents"]}
    assert logged == RunContent(run).md5s()
    assert set(artifact["aliases"]) == {"latest", "run-1"}
    summary = {k: v for one in entries for k, v in one.get("summary", {}).get("update", {}).items()}
    assert RunContent(run).summary().items() <= summary.items()


def test_a_run_whose_directory_has_changed_is_written_anew_in_its_place(opened, run, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    store = opened()
    assert "WANDB_MODE is offline" in store.complete(run)
    (log,) = offline_path(run).glob("*.wandb")
    written = log.stat().st_mtime_ns
    (run / "logs" / "loading.TAB-1.small.ray.log").write_text("more\n")
    RunDirectory(run).write_sums()
    store.complete(run)
    (log,) = offline_path(run).glob("*.wandb")
    assert log.stat().st_mtime_ns > written
    assert not [p for p in run.rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]


@pytest.mark.parametrize("named", [True, False])
def test_an_offline_run_is_uploaded_once_there_is_a_key(named, server, opened, run, monkeypatch):
    if named:
        monkeypatch.setenv("WANDB_ENTITY", ENTITY)
    opened().complete(run)
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    opened().complete(run)
    assert list(server.runs) == [f"{ENTITY}/skymark/run-1"]


def test_a_login_in_netrc_is_found(server, opened, home, monkeypatch):
    monkeypatch.setenv("WANDB_BASE_URL", server.base_url)
    login = f"machine 127.0.0.1:{server.port} login user password {KEY}\n"
    (home / ".netrc").write_text(login)
    (home / ".netrc").chmod(0o600)
    store = opened()
    assert store.live
    store.check()
    assert store.url == "wandb://lab/skymark/runs/run-1"


def test_an_offline_store_holds_no_files(opened):
    store = opened()
    store.check()
    store.delete("manifest.json")
    assert store.sizes() == {}
    with pytest.raises(FileNotFoundError):
        store.get("manifest.json")
    with pytest.raises(StoreRefusedError, match="the whole run"):
        store.put("manifest.json", b"{}")


def test_a_client_that_does_not_end_is_ended(home, run):
    with pytest.raises(StoreUnavailableError, match="in time"):
        log_offline(
            RunContent(run),
            (None, "skymark"),
            HURRIED.model_copy(update={"log_s": 0.1, "per_file_s": 0.0}),
        )


def test_a_directory_that_cannot_be_written_is_told(home, run):
    (home_of(RunContent(run)) / "wandb").write_text("in the way")
    with pytest.raises(StoreRefusedError, match="cannot write"):
        log_offline(RunContent(run), (None, "skymark"), HURRIED)
