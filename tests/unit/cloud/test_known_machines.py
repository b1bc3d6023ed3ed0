"""What is kept at home of a machine: what was ordered, and for a while its secrets."""

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
from skymark.model.errors import UsageError
from tests.unit.cloud.test_order import order_of


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SKYMARK_CACHE", str(tmp_path))


def test_what_was_ordered_is_known_until_the_machine_is_gone():
    order = order_of()
    claim(order)
    assert recall(order.cluster) == order
    forget(order.cluster)
    with pytest.raises(UsageError, match="was not hired from here"):
        recall(order.cluster)


def test_the_names_of_machines_that_are_not_known_to_be_gone_are_in_use(tmp_path):
    assert known_names() == set()
    claim(order_of())
    keep_secrets(order_of().cluster, {"KEY": "value"})
    assert known_names() == {order_of().cluster}
    forget(order_of().cluster)
    assert known_names() == set()


@pytest.mark.parametrize("end", [forget, forget_secrets])
def test_secrets_are_their_owner_s_alone_and_go_once_the_machine_has_them_or_is_gone(end):
    claim(order_of())
    path = keep_secrets(order_of().cluster, {"KEY": "value"})
    assert path.stat().st_mode & 0o777 == 0o600
    assert "value" in path.read_text()
    end(order_of().cluster)
    assert not path.exists()


def test_secrets_that_a_killed_client_left_go_a_day_later():
    claim(order_of())
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
        claim(order_of())
    except UsageError as error:
        return str(error)
    return None


def test_of_many_launches_under_one_name_at_the_same_moment_one_goes_on(tmp_path):
    context = get_context("spawn")
    with context.Manager() as manager, context.Pool(4) as pool:
        barrier = manager.Barrier(4)
        said = pool.map(claimed, [(str(tmp_path), barrier)] * 4, chunksize=1)
        pool.close()  # a worker that is told to end while it waits for work may miss it
        pool.join()
    refused = [one for one in said if one is not None]
    assert len(refused) == 3
    assert all("nothing was hired: the name skymark-cpu-1 is in use" in one for one in refused)
    assert recall(order_of().cluster) == order_of()
    forget(order_of().cluster)
    claim(order_of())


def test_whoever_puts_jobs_into_a_queue_waits_for_the_others(tmp_path):
    said, waiting, entered = [], threading.Event(), threading.Event()

    def announce(text):
        said.append(text)
        waiting.set()

    def enter():
        with turn_of("skymark-one", announce):
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
    assert said == ["waiting: another skymark is putting jobs into the queue of skymark-one"]
