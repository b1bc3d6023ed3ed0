"""W&B with a key: files while a run goes, then a W&B run and an artifact, read back."""

from __future__ import annotations

import json
import stat
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from skymark.model.errors import StoreRefusedError, UsageError
from skymark.rundir.directory import RunDirectory
from skymark.store.wandb.store import open_artifact, open_run_files
from tests.data.make_run import MACHINE
from tests.stores.finished_run import make_run
from tests.stores.wandb_backend import ENTITY, KEY
from tests.stores.wandb_store.conftest import PATIENT

ARTIFACT = f"benchmark-results-{MACHINE.git.commit}"


@pytest.fixture(scope="module")
def completed(shared_server, tmp_path_factory):
    """A run that was completed once: its directory, what was said, and where it could write."""
    with pytest.MonkeyPatch.context() as patch:
        base = tmp_path_factory.mktemp("wandb")
        home = base / "home"
        (home / "temporary").mkdir(parents=True)
        for name, value in shared_server.variables.items():
            patch.setenv(name, value)
        patch.setenv("HOME", str(home))
        patch.setenv("TMPDIR", str(home / "temporary"))
        patch.setenv("SKYMARK_CACHE", str(base / "cache"))
        patch.setattr("tempfile.tempdir", None)
        patch.chdir(home)
        run = make_run(base / "nightly")
        with closing(open_run_files("wandb", "nightly", PATIENT)) as store:
            store.put("records/a.json", b"early")
            told = store.complete(run)
            wrote = [path for path in home.rglob("*") if path.is_file()]
            told_again = store.complete(run)
        left = sorted(path.relative_to(home).as_posix() for path in home.rglob("*"))
        yield run, (told, told_again), (wrote, left)


def the_run(server):
    return server.runs["lab/skymark/nightly"]


def the_artifact(server):
    (found,) = [one for one in server.artifacts.values() if one["collection"][2] == ARTIFACT]
    return found


def test_a_file_is_written_listed_replaced_read_and_removed(shared_server, opened, monkeypatch):
    for name, value in shared_server.variables.items():
        monkeypatch.setenv(name, value)
    store = opened("files")
    assert store.live
    assert store.sizes() == {}
    store.check()
    assert store.sizes() == {}
    path = "records/TAB-1.small.a=1+b.grain@0.2.json"
    store.put(path, b"first")
    store.put(path, b"the second")
    store.put("logs/x.log", b"")
    assert store.sizes() == {path: 10, "logs/x.log": 0}
    assert store.get(path) == b"the second"
    assert store.get("logs/x.log") == b""
    store.delete(path)
    store.delete(path)
    with pytest.raises(FileNotFoundError, match="has no file"):
        store.get(path)
    assert store.url == "wandb://lab/skymark/runs/files"


def test_a_run_s_files_are_read_by_the_address_of_the_run(completed, shared_server, monkeypatch):
    for name, value in shared_server.variables.items():
        monkeypatch.setenv(name, value)
    with closing(open_artifact("wandb://lab/skymark/runs/nightly", PATIENT)) as source:
        assert source.sizes() == {"records/a.json": 5}
        assert source.get("records/a.json") == b"early"


def test_the_line_for_the_user_names_the_run_and_the_artifact(completed, shared_server):
    _, told, _ = completed
    run = f"{shared_server.base_url}/lab/skymark/runs/nightly"
    assert told[0] == f"W&B: {run}, artifact lab/skymark/{ARTIFACT}:v0"


def test_completing_twice_makes_one_run_and_one_version(completed, shared_server):
    _, told, _ = completed
    assert told[0] == told[1]
    assert [name for name in shared_server.runs if "nightly" in name] == ["lab/skymark/nightly"]
    assert set(the_artifact(shared_server)["aliases"]) == {"latest", "nightly"}
    assert the_run(shared_server)["historyLineCount"] == 1


def test_the_artifact_holds_every_file_of_the_run_and_nothing_else(completed, shared_server):
    directory, _, _ = completed
    found = the_artifact(shared_server)
    assert (found["state"], found["type"]) == ("COMMITTED", "benchmark-results")
    files = shared_server.artifact_files(found["id"])
    wanted = [p for p in RunDirectory(directory).files() if not p.startswith("rounds/")]
    assert len(wanted) == 2 + 3 + 2 + 3
    assert files == {path: (directory / path).read_bytes() for path in wanted}


def test_the_w_and_b_run_says_what_was_run_and_where(completed, shared_server):
    run = the_run(shared_server)
    assert run["state"] == "finished"
    assert run["tags"] == ["ci_cpu", MACHINE.git.commit[:12]]
    config = {name: one["value"] for name, one in json.loads(run["config"]).items()}
    assert config["profile"] == "ci_cpu"
    assert config["effort"]["name"] == "quick"
    assert config["settings"] == {"workers": 2}
    assert config["machine"]["hardware"]["cpu_model"] == "Example CPU 3000"
    assert config["versions"]["grain"] == {"grain": "1.2.3", "numpy": "2.3.0"}
    assert config["git"] == {"commit": MACHINE.git.commit, "dirty": False}
    assert "samples_per_s_TAB-1" in config["_wandb"]["visualize"]


def test_the_summary_has_each_cell_s_figures_and_no_null(completed, shared_server):
    directory, _, _ = completed
    summary = json.loads(the_run(shared_server)["summaryMetrics"])
    record = json.loads((directory / "records" / "loading.TAB-1.small.grain.json").read_bytes())
    figures = record["metrics"]
    cell = "loading.TAB-1.small.grain"
    assert summary[f"{cell}/samples_per_s"] == figures["samples_per_s"]["value"]
    assert summary[f"{cell}/wait_p99_ns"] == figures["wait_p99_ns"]["value"]
    assert summary[f"{cell}/first_batch_ns"] == figures["first_batch_ns"]["value"]
    assert f"{cell}/utilisation" not in summary
    assert not [name for name in summary if name.startswith("loading.TAB-1.small.ray")]
    assert None not in summary.values()


def test_the_table_has_a_row_for_every_cell(completed, shared_server):
    files = shared_server.files("lab/skymark/nightly")
    (table,) = [json.loads(data) for name, data in files.items() if "table/cells_" in name]
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert [row["status"] for row in rows] == ["ok", "ok", "failed"]
    assert rows[2]["cause"].endswith(" signal 9")
    assert rows[2]["samples_per_s"] is None
    assert rows[0]["samples_per_s"] > 0


def test_the_artifact_comes_back_byte_for_byte(completed, shared_server, monkeypatch):
    for name, value in shared_server.variables.items():
        monkeypatch.setenv(name, value)
    directory, _, _ = completed
    with closing(open_artifact(f"wandb://lab/skymark/{ARTIFACT}:latest", PATIENT)) as source:
        for path, size in source.sizes().items():
            assert source.get(path) == (directory / path).read_bytes()
            assert size == (directory / path).stat().st_size
        with pytest.raises(FileNotFoundError):
            source.get("../manifest.json")
    with closing(open_artifact(f"wandb://lab/skymark/{ARTIFACT}:v7", PATIENT)) as source:
        assert source.sizes() == {}


def test_a_reference_to_a_file_of_this_machine_is_not_followed(
    completed, shared_server, monkeypatch, tmp_path
):
    for name, value in shared_server.variables.items():
        monkeypatch.setenv(name, value)
    secret = tmp_path / "secret"
    secret.write_text("mine")
    stored = shared_server.stored(f"manifests/{the_artifact(shared_server)['manifest']}")
    before = stored.read_bytes()
    manifest = json.loads(before)
    manifest["contents"]["records/x.json"] = {
        "digest": "x",
        "size": 4,
        "ref": secret.as_uri(),
        "extra": {},
    }
    stored.write_text(json.dumps(manifest))
    try:
        with closing(open_artifact(f"wandb://lab/skymark/{ARTIFACT}:latest", PATIENT)) as source:
            assert "manifest.json" in source.sizes()
            assert "records/x.json" not in source.sizes()
            with pytest.raises(FileNotFoundError):
                source.get("records/x.json")
    finally:
        stored.write_bytes(before)


def test_the_key_is_in_no_file_of_the_run_and_the_cache(completed):
    directory, told, _ = completed
    files = [path for path in directory.parent.rglob("*") if path.is_file()]
    assert any(path.suffix == ".wandb" for path in files)
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    assert KEY not in "".join(told)


def test_nothing_on_the_server_names_a_directory_of_this_machine(completed, shared_server):
    run, *_ = completed
    base = str(run.parent).encode()
    sent = [path for path in shared_server.directory.rglob("*") if path.is_file()]
    assert any(b"local_path" in path.read_bytes() for path in sent)
    named = {path.name: path.read_bytes() for path in sent if base in path.read_bytes()}
    assert named == {}


def test_nothing_is_written_outside_the_cache(completed):
    directory, _, (wrote, left) = completed
    assert not (directory / "wandb").exists()
    (home,) = (directory.parent / "cache" / "wandb").iterdir()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert [path for path in wrote if "temporary" not in path.parts] == []
    assert left == ["temporary"]


class Stranger(BaseHTTPRequestHandler):
    """Someone else's server, which notes what it is asked and with which key."""

    def note(self):
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        self.send_error(500)

    do_GET = do_POST = do_PUT = note  # noqa: N815 - the names that http.server looks for

    def log_message(self, *_):
        """Say nothing on standard error."""


@pytest.fixture
def stranger():
    with ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("linked", [True, False])
def test_settings_in_a_run_from_elsewhere_send_the_key_nowhere(
    linked, server, stranger, opened, home, run, monkeypatch
):
    settings = home / ".config" / "wandb"
    settings.mkdir(parents=True)
    (settings / "settings").write_text(f"[default]\nbase_url = {server.base_url}\n")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_ENTITY", ENTITY)
    theirs = run / (".x" if linked else "wandb")
    theirs.mkdir()
    address = f"http://127.0.0.1:{stranger.server_address[1]}"
    (theirs / "settings").write_text(f"[default]\nbase_url = {address}\n")
    if linked:
        (run / "wandb").symlink_to(".x")
    opened().complete(run)
    assert stranger.asked == []
    assert list(server.runs) == [f"{ENTITY}/skymark/run-1"]


def test_a_home_that_somebody_else_prepared_is_refused(opened, home, run, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cache" / "wandb").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreRefusedError, match="no directory"):
        opened().complete(run)


@pytest.mark.parametrize(
    "url", ["wandb://lab/skymark", "wandb://lab/skymark/x", "wandb://a/b/../c:v0", "s3://b/c"]
)
def test_an_address_that_names_no_artifact_is_refused(url):
    with pytest.raises(UsageError, match="ARTIFACT:ALIAS"):
        open_artifact(url)


def test_the_store_s_address_is_wandb_alone():
    with pytest.raises(UsageError, match="WANDB_PROJECT"):
        open_run_files("wandb://lab/skymark", "run-1")


def test_a_disabled_client_is_refused(home, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    with pytest.raises(UsageError, match="unset it"):
        open_run_files("wandb", "run-1")
