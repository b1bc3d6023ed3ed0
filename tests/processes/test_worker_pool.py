"""The workers that an engine takes: one started ahead is that of the next group, or is ended."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from skymark.execute.process import WorkerKind
from skymark.execute.worker_pool import WorkerPool
from tests.scripted_suite import EFFORT, cell_of

pytestmark = pytest.mark.usefixtures("processes_without_coverage")

NEXT = cell_of("b")


@pytest.fixture
def kind(tmp_path):
    return WorkerKind(Path(sys.executable), "scripted:ScriptedRunner", tmp_path)


@pytest.fixture
def log(tmp_path):
    return tmp_path / "cell.log"


@pytest.fixture
def pool():
    with closing(WorkerPool(print, keeps=False)) as pool:
        yield pool


def started():
    """Return the processes that this one has started, and which run."""
    found = set()
    for child in psutil.Process().children():
        while not (words := child.cmdline()) and child.status() != psutil.STATUS_ZOMBIE:
            continue  # it is about to have them
        if "skymark.execute.worker" in words:
            found.add(child.pid)
    return found


def test_the_worker_that_was_started_ahead_serves_its_group(pool, kind, log):
    pool.start_ahead(kind, "b", [NEXT], log)
    (ahead,) = started()
    worker = pool.take(kind, "b", [NEXT], log)
    worker.await_ready()
    assert started() == {ahead}
    assert worker.measure(NEXT, 0, EFFORT, log).told.result.timed_ns > 0
    pool.give_back(worker)
    assert started() == set()


def test_one_that_was_started_for_a_group_which_has_no_turn_is_ended(pool, kind, log):
    pool.start_ahead(kind, "b", [NEXT], log)
    (ahead,) = started()
    worker = pool.take(kind, "c", [cell_of("c")], log)
    assert ahead not in started()
    worker.end()


def test_one_of_another_kind_is_ended(pool, kind, log, tmp_path):
    pool.start_ahead(kind, "b", [NEXT], log)
    (ahead,) = started()
    other = WorkerKind(kind.python, kind.runner, tmp_path / "elsewhere")
    worker = pool.take(other, "b", [NEXT], log)
    assert ahead not in started()
    worker.end()


def test_one_that_died_meanwhile_is_replaced(pool, kind, log):
    pool.start_ahead(kind, "b", [NEXT], log)
    (ahead,) = started()
    os.kill(ahead, signal.SIGKILL)
    psutil.Process(ahead).wait(120)
    worker = pool.take(kind, "b", [NEXT], log)
    worker.await_ready()
    worker.end()


def test_where_memory_is_short_only_parents_without_a_worker_are_ended(
    pool, kind, log, monkeypatch
):
    pool.start_ahead(kind, "forks-idle", [cell_of("forks-idle")], log)
    (idle,) = started()
    cell = cell_of("forks-a")
    worker = pool.take_beside(kind, "forks-a", [cell], log)
    worker.await_ready()
    monkeypatch.setattr("skymark.execute.worker_pool.LEAST_FREE", 1.1)
    pool.start_ahead(kind, "b", [NEXT], log)
    assert idle not in started()
    assert worker.measure(cell, 0, EFFORT, log).told.result.timed_ns > 0
    worker.end()


def test_one_is_started_ahead_at_a_time_and_closing_ends_it(pool, kind, log):
    pool.start_ahead(kind, "b", [NEXT], log)
    pool.start_ahead(kind, "b", [NEXT], log)
    assert len(started()) == 1
    pool.close()
    assert started() == set()


def test_a_pool_that_keeps_its_worker_starts_none_ahead(kind, log):
    with closing(WorkerPool(print, keeps=True)) as keeping:
        worker = keeping.take(kind, "a", [cell_of("a")], log)
        worker.await_ready()
        keeping.start_ahead(kind, "b", [NEXT], log)
        keeping.give_back(worker)
        assert keeping.take(kind, "a", [NEXT], log) is worker
        keeping.give_back(worker)


def test_an_interpreter_that_is_gone_is_told_to_who_takes_the_worker(pool, kind, log, tmp_path):
    gone = WorkerKind(tmp_path / "python", kind.runner, tmp_path)
    pool.start_ahead(gone, "b", [NEXT], log)
    assert started() == set()
