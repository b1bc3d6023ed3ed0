"""Cores are divided between what is measured and a server, and given back."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from skymark.machine.cgroup import apart, divided, keep_to, ranges
from tests.waiting import until

FIRST = min(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("cores", "text"),
    [
        ({0}, "measured and server 0"),
        ({0, 1}, "measured and server 0-1"),
        ({0, 1, 2}, "measured 0-1, server 2"),
        ({1, 4, 5, 6}, "measured 1,4-5, server 6"),
    ],
)
def test_the_server_has_the_last_core_where_there_are_more_than_two(cores, text):
    assert str(divided(cores)) == text


def test_cores_are_shown_as_ranges():
    assert ranges([3, 1, 2, 8, 6, 7]) == "1-3,6-8"


def test_every_thread_of_a_process_is_kept_to_the_cores_and_let_go():
    every, gone, told = os.sched_getaffinity(0), threading.Event(), []

    def run():
        told.append(threading.get_native_id())
        gone.wait()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(lambda: told)
        keep_to({FIRST}, [os.getpid()])
        assert os.sched_getaffinity(0) == os.sched_getaffinity(told[0]) == {FIRST}
    finally:
        keep_to(every, [os.getpid()])
        gone.set()
        thread.join()
    assert os.sched_getaffinity(0) == every


def test_a_server_and_the_rest_have_the_cores_that_are_said(processes_without_coverage):
    every = os.sched_getaffinity(0)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as server:
        with apart(server.pid) as division:
            assert os.sched_getaffinity(server.pid) == division.server
            assert os.sched_getaffinity(0) == division.measured
        assert os.sched_getaffinity(0) == every


def test_a_process_that_has_ended_is_passed_over():
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    keep_to({FIRST}, [ended.pid])
