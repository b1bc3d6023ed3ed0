"""All stores of a run: still while measuring, complete at the end, honest about what lacks."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import closing

import pytest

from skymark.plain_files import LARGEST_FILE_BYTES
from skymark.rundir.directory import TOO_LARGE, RunDirectory
from skymark.store.storing import STALLED, Storing
from tests.unit.store.conftest import FaultyStore
from tests.waiting import until


def test_a_run_is_completed_in_each_store_after_its_files_are_there(store, directory):
    with closing(Storing({"file:///store": store}, directory)) as storing:
        (stored,) = storing.finish(60)
    assert stored.ok
    assert (stored.address, stored.files, stored.note) == ("file:///store", 6, "look there")
    assert store.completions == 1


def test_one_store_that_is_away_does_not_keep_results_from_another(store, directory, tmp_path):
    (tmp_path / "other").mkdir()
    completed = threading.Event()

    class Away(FaultyStore):
        def complete(self, directory):
            assert completed.wait(60), "the other one waits for this one"
            return super().complete(directory)

    class Other(FaultyStore):
        def complete(self, directory):
            completed.set()
            return super().complete(directory)

    away, other = Away(store.root), Other(tmp_path / "other" / "run")
    away.away = True
    with closing(Storing({"a": away, "b": other}, directory)) as storing:
        storing.changed("", RunDirectory(directory).files())
        problem = "the store is away"
        sent = [(0, problem), (6, None)]
        until(lambda: [(one.files, one.problem) for one in storing.settle(0)] == sent)
        first, second = storing.finish(5)
    assert not first.ok
    assert len(first.missing) == 6
    assert first.problem == problem
    assert second.ok


class Clock:
    """Time that only its own sleeps advance."""

    def __init__(self):
        self.now_s = 0.0

    def monotonic(self):
        return self.now_s

    def sleep(self, wait_s):
        self.now_s += wait_s


def test_a_store_that_is_away_is_waited_for_no_longer_than_was_asked(store, directory, monkeypatch):
    clock = Clock()
    for module in ("skymark.store.storing", "tenacity"):
        monkeypatch.setattr(f"{module}.time", clock)
    store.away = True
    with closing(Storing({"a": store}, directory)) as storing:
        assert not storing.finish(5)[0].ok
    assert clock.now_s == pytest.approx(5)


def test_a_completion_that_fails_is_tried_again_until_the_time_is_over(store, directory):
    attempts = []

    class LateStore(FaultyStore):
        def complete(self, directory):
            attempts.append(1)
            if len(attempts) < 3:
                self.away = True
                return super().complete(directory)
            self.away = False
            return super().complete(directory)

    late = LateStore(store.root)
    with closing(Storing({"a": late}, directory)) as storing:
        (stored,) = storing.finish(30)
    assert stored.ok
    assert len(attempts) == 3


def test_a_round_is_told_which_store_did_not_keep_still(store, directory):
    store.may_go_on.clear()
    with closing(Storing({"a": store}, directory)) as storing:
        storing.changed("", ["manifest.json"])
        assert store.in_request.wait(60)
        assert storing.hold() == [store.url]
        store.may_go_on.set()
        assert storing.finish(60)[0].ok
        assert storing.hold() == []


def test_nothing_is_sent_between_the_rounds_of_a_worker(store, directory):
    with closing(Storing({"a": store}, directory)) as storing:
        assert storing.hold() == []
        storing.changed("", ["manifest.json"])
        assert storing.hold() == []
        assert not store.in_request.wait(0.3)
        storing.release()
        assert store.in_request.wait(60)


def test_a_worker_that_measures_for_long_does_not_hold_uploads_for_ever(
    store, directory, monkeypatch
):
    monkeypatch.setattr("skymark.store.storing.HELD_S", 0.0)
    monkeypatch.setattr("skymark.store.storing.RESPITE_S", 60.0)
    monkeypatch.setattr("skymark.store.storing.PATIENCE_S", 60.0)
    with closing(Storing({"a": store}, directory)) as storing:
        assert storing.hold() == []
        storing.changed("", ["manifest.json"])
        assert storing.hold() == []
        assert store.in_request.is_set()


def test_what_an_interrupted_run_could_not_store_is_named(store, directory):
    store.away = True
    with closing(Storing({"a": store}, directory)) as storing:
        assert storing.flush(0.2) == [store.url]
        store.away = False
        assert storing.flush(60) == []


def test_a_store_that_takes_nothing_at_the_end_is_said_so_once(store, directory, monkeypatch):
    monkeypatch.setattr("skymark.store.storing.STALLED_S", 0.2)
    monkeypatch.setattr("skymark.store.storing.POLL_S", 0.02)
    store.may_go_on.clear()
    said = []

    def announce(text):
        said.append(text)
        if text.startswith(STALLED):
            store.may_go_on.set()

    with closing(Storing({"a": store}, directory)) as storing:
        (stored,) = storing.finish(60, announce)
    assert stored.ok
    first, second = said
    assert first.endswith(store.url)
    assert second.startswith(f"{STALLED} in {store.url}:")


def test_a_store_that_has_all_is_not_said_to_take_nothing(store, directory, monkeypatch):
    monkeypatch.setattr("skymark.store.storing.POLL_S", 0.02)

    class SlowToComplete(FaultyStore):
        def complete(self, directory):
            upload = storing._uploads[self]
            until(lambda: upload.stored == 6 and not upload.left)
            monkeypatch.setattr("skymark.store.storing.STALLED_S", 0.2)
            time.sleep(0.7)
            return super().complete(directory)

    said = []
    with closing(Storing({"a": SlowToComplete(store.root)}, directory)) as storing:
        (stored,) = storing.finish(60, said.append)
    assert stored.ok
    assert len(said) == 1


def test_ctrl_c_ends_the_wait_for_a_store_that_takes_nothing(store, directory):
    store.may_go_on.clear()

    def interrupt():
        if store.in_request.wait(60):  # so the wait has begun
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGINT)

    began_s = time.monotonic()
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with closing(Storing({"a": store}, directory)) as storing, pytest.raises(KeyboardInterrupt):
            storing.finish(120)
    finally:
        store.may_go_on.set()
    assert time.monotonic() - began_s < 60


def test_a_file_that_is_too_large_is_named_and_all_others_are_stored(store, directory):
    with (directory / "logs/A.1.log").open("r+b") as file:
        file.truncate(LARGEST_FILE_BYTES + 1)
    with closing(Storing({"a": store}, directory)) as storing:
        storing.changed("A.1", ["samples/A.1.parquet", "logs/A.1.log", "records/A.1.json"])
        (stored,) = storing.finish(60)
    assert stored.problem.startswith(f"logs/A.1.log {TOO_LARGE}")
    assert stored.files == 5
    assert "logs/A.1.log" not in store.sizes()
    assert "records/A.1.json" in store.sizes()
    assert store.completions == 1
