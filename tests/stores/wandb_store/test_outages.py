"""W&B away, slow, or saying yes and meaning no: bounded in time, told, and made good later."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import psutil
import pytest

from skymark.model.errors import StoreRefusedError, StoreUnavailableError
from skymark.rundir.directory import RunDirectory
from skymark.store.wandb.content import RunContent
from tests.stores.wandb_backend import KEY
from tests.stores.wandb_store.conftest import HURRIED, PATIENT

TO_BE_WAITED_OUT = [
    HURRIED.model_copy(update={"request_s": request_s, "call_s": call_s, "sync_s": sync_s})
    for request_s, call_s, sync_s in ((3, 30, 8), (10, 30, 30), (60, 180, 240))
]
"""Limits of what does not end before them, from little to plenty: on a busy machine, an upload may
be ended before it has come to where something is to go wrong."""
OF_CALLS = [
    HURRIED.model_copy(update={"request_s": 2 * call_s, "call_s": call_s})
    for call_s in (15, 60, 240)
]
"""Likewise of calls that hang, which are ended before wandb's library itself gives up."""
ENDING_S = 60.0
"""Time for ending a client that is late, with all its processes."""


@contextmanager
def stopped_at(server, request):
    """Kill the server as soon as it is asked for something; yields whether that was not yet."""
    watch = threading.Thread(target=lambda: (server.wait_for(request, 900), server.stop()))
    watch.start()
    try:
        yield watch.is_alive
    finally:
        watch.join()


@contextmanager
def seen_below():
    """Yields the command lines of the processes below this one, as they are seen."""
    seen, over = [], threading.Event()

    def look():
        while not over.wait(0.05):
            for one in descendants():
                with suppress(psutil.Error):
                    seen.append(one.cmdline())

    watch = threading.Thread(target=look)
    watch.start()
    try:
        yield seen
    finally:
        over.set()
        watch.join()


def stored_files(server):
    (found,) = [one for one in server.artifacts.values() if one["type"] == "benchmark-results"]
    assert found["state"] == "COMMITTED"
    return server.artifact_files(found["id"])


def files_of(run):
    paths = [path for path in RunDirectory(run).files() if not path.startswith("rounds/")]
    return {path: (run / path).read_bytes() for path in paths}


def descendants():
    found = []
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if "wandb_backend" not in str(one.cmdline()):
                found.append(one)
    return found


def test_a_server_that_is_away_from_the_start_is_told_in_time_and_loses_nothing(
    server, online, run
):
    server.stop()
    for limits in TO_BE_WAITED_OUT:
        store = online(limits=limits)
        begin = time.monotonic()
        with pytest.raises(StoreUnavailableError):
            store.check()
        assert time.monotonic() - begin < 3 * limits.call_s
        with pytest.raises(StoreUnavailableError) as told:
            store.complete(run)
        assert time.monotonic() - begin < 2 * limits.log_s + 3 * limits.call_s
        if "did not answer" in str(told.value):
            break
    assert "did not answer" in str(told.value)
    server.start()
    online().complete(run)
    assert stored_files(server) == files_of(run)


@pytest.mark.parametrize("request_", ["CreateArtifactFiles", "CommitArtifact"])
def test_a_server_that_goes_away_during_the_upload_gets_everything_later(
    request_, server, online, run
):
    with stopped_at(server, request_) as is_there:
        for limits in TO_BE_WAITED_OUT:
            with pytest.raises(StoreUnavailableError):
                online(limits=limits).complete(run)
            if not is_there():
                break
    server.start()
    online().complete(run)
    assert list(server.runs) == ["lab/skymark/run-1"]
    assert stored_files(server) == files_of(run)


def test_an_upload_that_hangs_is_ended_with_all_its_processes(server, online, run):
    server.misbehave(stall=["CreateArtifactManifest"])
    with seen_below() as seen:
        for limits in TO_BE_WAITED_OUT:
            store = online(limits=limits)
            with pytest.raises(StoreUnavailableError) as told:
                store.complete(run)
            store.close()
            if server.was_asked("CreateArtifactManifest"):
                break
    limit_s = limits.sync_s + limits.per_file_s * len(RunContent(run).files)
    assert re.search(rf"`wandb sync`.*\b{limit_s:.0f} s\b", str(told.value))
    assert any("sync" in command for command in seen)
    assert any("wandb-core" in command[0] for command in seen if command)
    assert KEY not in str(seen)
    assert descendants() == []


def test_files_that_the_server_refuses_are_told(server, online, run):
    server.misbehave(status={"PUT /storage/artifacts": 403})
    with pytest.raises(StoreUnavailableError, match="no artifact"):
        online().complete(run)
    server.misbehave()
    online().complete(run)
    assert stored_files(server) == files_of(run)


def test_an_artifact_that_was_left_pending_is_noticed_and_sent_again(server, online, run):
    server.misbehave(pending=True)
    store = online()
    with pytest.raises(StoreUnavailableError, match="no artifact"):
        store.complete(run)
    assert {one["state"] for one in server.artifacts.values()} == {"PENDING"}
    server.misbehave()
    store.complete(run)
    assert stored_files(server) == files_of(run)


def test_bytes_that_differ_are_noticed(server, online, run):
    store = online()
    store.complete(run)
    (found,) = [id for id, one in server.artifacts.items() if one["type"] == "benchmark-results"]
    path = "records/loading.TAB-1.small.ray.json"
    blob = server.stored(f"artifacts/{found}/{path}")
    blob.write_bytes(blob.read_bytes()[:-5] + b"other")
    with pytest.raises(StoreUnavailableError, match=re.escape(f"differs in, {path}")):
        store.complete(run)


@pytest.mark.parametrize("status", [503, 429])
def test_a_server_in_trouble_is_worth_another_try(status, server, online):
    for limits in TO_BE_WAITED_OUT:
        server.misbehave(status={"UpsertBucket": status})
        store = online(limits=limits)
        begin = time.monotonic()
        with pytest.raises(StoreUnavailableError):
            store.put("manifest.json", b"{}")
        assert time.monotonic() - begin < 3 * limits.call_s
        server.misbehave()
        with suppress(StoreUnavailableError):  # also where the server is slow beside these limits
            store.put("manifest.json", b"{}")
            assert store.get("manifest.json") == b"{}"
            return
    pytest.fail("it is not stored with any limits")


@pytest.mark.parametrize("place", ["PUT", "UpsertBucket", "Viewer"])
def test_a_server_that_says_no_is_not_asked_again(place, server, online):
    server.misbehave(status={place: 403})
    with pytest.raises(StoreRefusedError, match=r"\b403\b.*\bWANDB_API_KEY, WANDB_ENTITY\b"):
        online().put("manifest.json", b"{}")


@pytest.mark.parametrize(("key", "why"), [("x" * 40, "invalid API key"), ("short", "40")])
def test_a_bad_key_is_refused_and_not_repeated(key, why, online, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", key)
    with pytest.raises(StoreRefusedError, match=why) as caught:
        online().check()
    assert key not in str(caught.value)


def test_a_client_that_hangs_is_ended_and_started_again(server, online):
    for limits in OF_CALLS:
        server.misbehave()
        store = online(limits=limits)
        with suppress(StoreUnavailableError):  # where what is answered is slow beside these limits
            store.check()
            server.misbehave(stall=["PUT"])
            begin = time.monotonic()
            with pytest.raises(StoreUnavailableError, match=f"within {limits.call_s:g} s"):
                store.put("manifest.json", b"{}")
            assert time.monotonic() - begin < limits.call_s + ENDING_S
            assert descendants() == []
            server.misbehave()
            store.put("manifest.json", b"{}")
            return
        store.close()
    pytest.fail("it is not stored with any limits")


def test_calls_go_side_by_side_and_one_that_hangs_ends_those_beside_it(server, online):
    for limits in OF_CALLS:
        server.misbehave()
        store = online(limits=limits)
        with suppress(StoreUnavailableError):  # where what is answered is slow beside these limits
            store.check()
            assert_that_those_beside_it_end(server, store)
            server.misbehave()
            assert_that_files_go_side_by_side(store)
            return
        store.close()
    pytest.fail("they are not stored with any limits")


def assert_that_those_beside_it_end(server, store):
    begun = len(server.requests)
    server.misbehave(stall=["PUT"])
    with ThreadPoolExecutor(store.parallel) as pool:
        hanging = [
            pool.submit(store.put, f"logs/{number}.log", b"") for number in range(store.parallel)
        ]
        raised = [one.exception() for one in hanging]
    assert {type(one) for one in raised} == {StoreUnavailableError}
    assert descendants() == []
    sent = [one for one in server.requests[begun:] if one.startswith("PUT")]
    if len(sent) < store.parallel:
        raise StoreUnavailableError("they were ended before the server had got them all")
    assert len(sent) == store.parallel


def assert_that_files_go_side_by_side(store):
    paths = [f"logs/{number}.log" for number in range(3 * store.parallel)]
    with ThreadPoolExecutor(store.parallel) as pool:
        list(pool.map(lambda path: store.put(path, path.encode()), paths))
        assert list(pool.map(store.get, paths)) == [path.encode() for path in paths]


def test_a_client_that_hangs_ends_with_a_skymark_that_was_killed(server, online):
    server.misbehave(stall=["PUT"])
    limits = PATIENT.model_copy(update={"call_s": 300.0})
    program = (
        "from skymark.store.wandb.client import TimeLimits\n"
        "from skymark.store.wandb.store import open_run_files\n"
        f"open_run_files('wandb', 'run-1', {limits!r}).put('manifest.json', b'{{}}')\n"
    )
    skymark = subprocess.Popen([sys.executable, "-c", program])
    try:
        server.wait_for("PUT", 300)
        family = psutil.Process(skymark.pid).children(recursive=True)
    finally:
        skymark.kill()
        skymark.wait()
    assert len(family) >= 2
    assert psutil.wait_procs(family, 120)[1] == []


def test_wandb_s_client_is_not_loaded_into_this_process():
    assert "wandb" not in sys.modules
