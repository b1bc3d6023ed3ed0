"""One measurement at a time on a machine, over processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from skymark.machine.measuring_lock import lock_path, measuring
from skymark.model.errors import UsageError

HOLD = """
from skymark.machine.measuring_lock import measuring
with measuring():
    print("held", flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def own_lock(tmp_path, monkeypatch):
    monkeypatch.setenv("SKYMARK_LOCK", str(tmp_path / "machine.lock"))


@pytest.fixture
def holder():
    """Another process that holds the lock until its standard input ends."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLD], **pipes) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_free_machine_is_taken_without_a_word():
    told = []
    with measuring(announce=told.append):
        pass
    with measuring(announce=told.append):
        pass
    assert told == []


def test_a_busy_machine_is_waited_for_with_one_announcement(holder):
    told = []

    def announce(text):
        told.append(text)
        holder.stdin.write("\n")
        holder.stdin.flush()

    with measuring(wait_s=30, announce=announce):
        assert holder.wait(10) == 0
    assert told == ["waiting: another skymark run is measuring on this machine"]


def test_a_machine_that_stays_busy_is_an_error_that_names_the_lock(holder):
    with pytest.raises(UsageError, match="still measures") as caught, measuring(wait_s=0.2):
        pass
    assert str(lock_path()) in str(caught.value)


def test_a_holder_that_was_killed_holds_nothing(holder):
    holder.kill()
    holder.wait()
    with measuring(wait_s=0):
        pass


def test_the_lock_is_free_again_after_a_failure():
    with pytest.raises(RuntimeError), measuring():
        raise RuntimeError
    with measuring(wait_s=0):
        pass


def test_the_lock_lies_where_every_user_of_the_machine_finds_it(monkeypatch, tmp_path):
    monkeypatch.delenv("SKYMARK_LOCK")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert lock_path() == tmp_path / "skymark.lock"
