"""What skymark starts ends with it: also where it is killed, and however the program left it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from skymark.machine.children import run_tied
from tests.waiting import until

FAMILY = """
import os, subprocess, sys, time
from pathlib import Path
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "{mark}"])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
Path(sys.argv[1]).touch()
time.sleep({seconds})
"""
"""A program with a child, and with a process that has left it as a daemon does."""

CALLER = """
import os, sys
from skymark.machine.children import run_tied
run_tied([sys.executable, "-c", sys.argv[1], sys.argv[2]], dict(os.environ))
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's prctl(2)")


def of(mark: str) -> list[int]:
    """Return the processes that have a text in their environment."""
    found = []
    for one in psutil.process_iter():
        try:
            if one.environ().get("SKYMARK_TEST_MARK") == mark:
                found.append(one.pid)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A text in the environment of all that this test starts."""
    monkeypatch.setenv("SKYMARK_TEST_MARK", str(tmp_path))
    return str(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_program_and_all_that_left_it_end_with_the_caller(
    tmp_path: Path, mark: str, number: signal.Signals
) -> None:
    program = FAMILY.format(mark=mark, seconds=600)
    caller = subprocess.Popen([sys.executable, "-c", CALLER, program, str(tmp_path / "begun")])
    until((tmp_path / "begun").exists, 60, "the program's begin")
    until(lambda: len(of(mark)) == 5, 60, "the family")
    caller.send_signal(number)
    caller.wait()
    until(lambda: not of(mark), 60, "the end of all processes")


def test_a_program_ends_with_its_keeper(tmp_path: Path, mark: str) -> None:
    caller = subprocess.Popen(
        [sys.executable, "-c", CALLER, FAMILY.format(mark=mark, seconds=600), str(tmp_path / "a")]
    )
    until((tmp_path / "a").exists, 60, "the program's begin")
    (keeper,) = psutil.Process(caller.pid).children()
    program = min(keeper.children(), key=psutil.Process.create_time)
    keeper.kill()
    assert psutil.wait_procs([program], timeout=60)[1] == []
    for left in set(of(mark)) - {os.getpid()}:
        os.kill(left, signal.SIGKILL)
    caller.wait()


def test_what_a_program_leaves_ends_after_it(tmp_path: Path, mark: str) -> None:
    program = FAMILY.format(mark=mark, seconds=0)
    done = run_tied([sys.executable, "-c", program, str(tmp_path / "a")], dict(os.environ))
    assert done.returncode == 0
    assert set(of(mark)) <= {os.getpid()}


def test_what_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path, mark: str) -> None:
    program = FAMILY.format(mark=mark, seconds=600)
    with pytest.raises(subprocess.TimeoutExpired):
        run_tied([sys.executable, "-c", program, str(tmp_path / "a")], dict(os.environ), limit_s=2)
    assert set(of(mark)) <= {os.getpid()}


@pytest.mark.parametrize(
    ("program", "status", "output"),
    [
        ("import sys; print('out'); print('err', file=sys.stderr)", 0, {"out", "err"}),
        ("raise SystemExit(7)", 7, set()),
        ("import os; os.kill(os.getpid(), 9)", 137, set()),
    ],
)
def test_a_program_s_status_and_output_are_its_own(
    program: str, status: int, output: set[str]
) -> None:
    done = run_tied([sys.executable, "-c", program], dict(os.environ))
    assert (done.returncode, set(done.stdout.split())) == (status, output)


def test_a_program_that_is_not_there_is_named() -> None:
    done = run_tied(["/no/such/program"], {})
    assert done.returncode == 1
    assert done.stdout.startswith("/no/such/program ")
    assert done.stdout.endswith(f"{os.strerror(errno.ENOENT)}\n")
