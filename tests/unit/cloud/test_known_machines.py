"""What is kept at home of a machine: its run, and for a while its secrets."""

from __future__ import annotations

import os
import threading
import time
from multiprocessing import get_context

import pytest

from skymark.cloud.known_machines import (
    DAY_S,
    claim,
    forget,
    forget_secrets,
    keep_secrets,
    known_names,
    recall,
    turn_of,
)
from skymark.model.errors import NameTakenError, UnknownMachineError, UsageError
from tests.rented_runs import run_of


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SKYMARK_CACHE", str(tmp_path))


def test_what_was_ordered_is_known_until_the_machine_is_gone():
    run = run_of()
    claim(run)
    assert recall(run.name) == run
    forget(run.name)
    with pytest.raises(UnknownMachineError, match=run.name):
        recall(run.name)


@pytest.mark.parametrize(
    ("note", "named"),
    [
        ('{"num_nodes": "three", "max_cost_usd": -1, "deadline": 5}', "num_nodes"),
        ('{"machine": {"nodes": "three"}}', "Machine: nodes"),
        ('{"limits": {"max_cost_usd": -1}}', "Limits: max_cost_usd"),
        ("[", "JSON"),
    ],
)
def test_a_damaged_note_is_refused_with_its_fault_and_its_place(tmp_path, note, named):
    claim(run_of())
    (path,) = tmp_path.rglob("skymark-cpu-1.json")
    path.write_text(note)
    with pytest.raises(UsageError) as refused:
        recall("skymark-cpu-1")
    assert not isinstance(refused.value, UnknownMachineError)
    assert named in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_note_has_no_secret(tmp_path):
    claim(run_of(secrets={"KEY": "hidden"}))
    (path,) = tmp_path.rglob("skymark-cpu-1.json")
    assert "hidden" not in path.read_text()
    assert "hidden" not in repr(run_of(secrets={"KEY": "hidden"}))
    assert recall("skymark-cpu-1").job.secrets == {}


def test_the_names_of_machines_that_are_not_known_to_be_gone_are_in_use(tmp_path):
    assert known_names() == set()
    claim(run_of())
    keep_secrets(run_of().name, {"KEY": "value"})
    assert known_names() == {run_of().name}
    forget(run_of().name)
    assert known_names() == set()


@pytest.mark.parametrize("end", [forget, forget_secrets])
def test_secrets_are_their_owner_s_alone_and_go_once_the_machine_has_them_or_is_gone(end):
    claim(run_of())
    path = keep_secrets(run_of().name, {"KEY": "value"})
    assert path.stat().st_mode & 0o777 == 0o600
    assert "value" in path.read_text()
    end(run_of().name)
    assert not path.exists()


def test_secrets_that_a_killed_client_left_go_a_day_later():
    claim(run_of())
    left = keep_secrets("skymark-left", {"KEY": "value"})
    new = keep_secrets("skymark-new", {"KEY": "value"})
    assert left.exists()
    os.utime(left, (time.time() - DAY_S - 60,) * 2)
    keep_secrets("skymark-newer", {"KEY": "value"})
    assert not left.exists()
    assert new.exists()


def claimed(arguments):
    cache, barrier = arguments
    os.environ["SKYMARK_CACHE"] = cache
    barrier.wait()
    try:
        claim(run_of())
    except NameTakenError as error:
        return str(error)
    return None


def test_of_many_launches_under_one_name_at_the_same_moment_one_goes_on(tmp_path):
    context = get_context("spawn")
    with context.Manager() as manager, context.Pool(4) as pool:
        barrier = manager.Barrier(4)
        said = pool.map(claimed, [(str(tmp_path), barrier)] * 4, chunksize=1)
        pool.close()  # a worker that is told to end while it waits for work may miss it
        pool.join()
    refused = [text for text in said if text is not None]
    assert len(refused) == 3
    assert all(f"skymark down {run_of().name}" in text for text in refused)
    assert recall(run_of().name) == run_of()
    forget(run_of().name)
    claim(run_of())


def test_whoever_puts_jobs_into_a_queue_waits_for_the_others(tmp_path):
    said, waiting, entered = [], threading.Event(), threading.Event()

    def tell(text):
        said.append(text)
        waiting.set()

    def enter():
        with turn_of("skymark-one", tell):
            entered.set()

    with turn_of("skymark-one", said.append):
        second = threading.Thread(target=enter)
        second.start()
        assert waiting.wait(60)
        assert not entered.wait(0.3)
        with turn_of("skymark-two", said.append):  # another machine's
            pass
    second.join(60)
    assert entered.is_set()
    (line,) = said
    assert "skymark-one" in line
