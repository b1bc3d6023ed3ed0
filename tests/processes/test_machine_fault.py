"""Faults of the machine: what the log, a signal and the process tree tell of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from skymark.execute.machine_fault import IDLE_S, RoundWatch
from skymark.execute.worker import signals_of_children

WAITS = """
import os, signal, sys, time
child = os.fork()
if child == 0:
    time.sleep(60)
print(child, flush=True)
time.sleep(60)
"""


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def waiting() -> Iterator[tuple[int, int]]:
    """A process that waits and has a child; yields the ids of both."""
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        yield process.pid, child
        os.kill(child, signal.SIGKILL)
        process.kill()


SAYINGS = {
    "RuntimeError: unable to allocate shared memory(shm) for file </torch_1>: No space left on "
    "device (28)": "shared-memory-full",
    "OSError: [Errno 28] No space left on device: '/dev/shm/psm_1'": "shared-memory-full",
    "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
    "shared memory (shm).": "shared-memory-full",
    "a process of the library was killed by signal 7": "shared-memory-full",
    "RuntimeError: Worker process was terminated with exit code -7.": "shared-memory-full",
    "OSError: [Errno 24] Too many open files": "too-many-open-files",
    "OSError: [Errno 28] No space left on device: '/tmp/x'": "device-full",
    "MemoryError: Unable to allocate 4.00 GiB for an array": "out-of-memory",
    "ValueError: the batch is wrong": None,
}


@pytest.mark.parametrize(("line", "kind"), SAYINGS.items())
@pytest.mark.parametrize("place", ["log", "message"])
def test_a_fault_is_told_by_what_the_library_said(tmp_path, line, kind, place):
    log = tmp_path / "cell.log"
    log.write_text("OSError: [Errno 24] Too many open files, in an earlier round\n")
    watch = RoundWatch(log)
    if place == "log":
        with log.open("a") as file:
            file.write(f"{line}\n")
    fault = watch.fault(line if place == "message" else "")
    assert (fault and fault.kind) == kind
    if fault is not None:
        assert fault.action


def test_a_bus_error_is_shared_memory_and_other_signals_are_no_fault_of_the_machine(tmp_path):
    watch = RoundWatch(tmp_path / "none.log")
    fault = watch.fault("", signal.SIGBUS)
    assert fault is not None
    assert fault.kind == "shared-memory-full"
    assert watch.fault("", signal.SIGKILL) is None


def test_a_library_that_waits_for_a_process_that_was_killed_is_found(tmp_path, waiting):
    pid, child = waiting
    clock = Clock()
    watch = RoundWatch(tmp_path / "none.log", clock)
    clock.now = 2 * IDLE_S
    assert watch.look(pid) is None  # it waits, and nothing is wrong
    os.kill(child, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while (fault := watch.look(pid)) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert fault is not None
    assert fault.kind == "lost-process"
    assert "signal 9" in fault.message


def test_a_library_that_ends_its_own_processes_is_left_alone(tmp_path, waiting):
    pid, child = waiting
    clock = Clock()
    watch = RoundWatch(tmp_path / "none.log", clock)
    os.kill(child, signal.SIGTERM)
    time.sleep(0.1)
    clock.now = 2 * IDLE_S
    assert watch.look(pid) is None


def test_a_library_that_works_is_left_alone_whatever_it_printed(tmp_path):
    log = tmp_path / "cell.log"
    clock = Clock()
    watch = RoundWatch(log, clock)
    log.write_text("OSError: [Errno 24] Too many open files\n")
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    clock.now = IDLE_S - 1
    assert watch.look(os.getpid()) is None
    clock.now = 3 * IDLE_S
    fault = watch.look(os.getpid())
    assert fault is not None
    assert fault.kind == "too-many-open-files"


def test_a_worker_tells_of_the_processes_that_it_lost():
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.send_signal(signal.SIGBUS)
        process.wait()
        os.kill(child, signal.SIGKILL)
        assert signal.SIGBUS in signals_of_children()
