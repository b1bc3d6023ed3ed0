"""One measurement at a time on a machine, over processes."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skymark.machine import measuring_lock
from skymark.machine.measuring_lock import Holder, lock_path, measuring
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

    with measuring(wait_s=60, announce=announce):
        assert holder.wait(60) == 0
    (line,) = told
    assert line.startswith("waiting: ")
    assert f"process {holder.pid} of {pwd.getpwuid(os.getuid()).pw_name}, since 2" in line


def test_a_machine_that_stays_busy_is_an_error_that_names_the_lock(holder):
    with pytest.raises(UsageError, match="still measures") as caught, measuring(wait_s=0.2):
        pass
    assert str(lock_path()) in str(caught.value)
    assert f"process {holder.pid} of" in str(caught.value)


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


# Strangers

SQUAT = """
import os, socket, sys
if os.getuid() == 0:
    os.setuid(65534)
held = socket.socket(socket.AF_UNIX)
held.bind("\\0" + sys.argv[1])
if sys.argv[2] == "listens":
    held.listen()
print("held", flush=True)
input()
"""


@pytest.fixture
def machine(monkeypatch):
    """The machine's name, one that no run of anybody else has; and no lock file of a test's own."""
    name = f"skymark-test-{uuid.uuid4().hex}"
    monkeypatch.setattr(measuring_lock, "MACHINE_NAME", name)
    monkeypatch.delenv("SKYMARK_LOCK")
    return name


@pytest.fixture
def squatter(machine, request):
    """A process, of another user where the tests may start one, that has the machine's name."""
    command = [sys.executable, "-c", SQUAT, machine, request.param]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


@pytest.mark.parametrize("squatter", ["listens"], indirect=True)
def test_a_run_of_another_user_is_waited_for_and_named(squatter):
    user = pwd.getpwuid(65534 if os.getuid() == 0 else os.getuid()).pw_name
    told = []
    named = pytest.raises(UsageError, match=f"process {squatter.pid} of {user}, since 2")
    with named, measuring(wait_s=0.3, announce=told.append):
        pass
    assert len(told) == 1
    squatter.kill()
    squatter.wait()
    with measuring(wait_s=0):
        pass


@pytest.mark.parametrize("squatter", ["is silent"], indirect=True)
def test_who_holds_the_machine_for_nothing_is_worked_around(squatter, monkeypatch, tmp_path):
    named = pytest.raises(UsageError, match=r"be seen .*SKYMARK_LOCK=FILE")
    with named, measuring(wait_s=0):
        pass
    monkeypatch.setenv("SKYMARK_LOCK", str(tmp_path / "mine"))
    with measuring(wait_s=0):
        pass


def test_two_runs_of_one_machine_exclude_each_other_whatever_their_temporary_directory(
    machine, monkeypatch, tmp_path
):
    with measuring(wait_s=0):
        monkeypatch.setattr(measuring_lock, "_candidates", lambda: [tmp_path / "other"])
        with pytest.raises(UsageError, match=f"process {os.getpid()} "), measuring(wait_s=0):
            pass


def directory(path):
    path.mkdir()


def link_to_a_file(path):
    path.symlink_to(path.with_name("precious"))


@pytest.mark.parametrize("put", [directory, link_to_a_file, os.mkfifo])
def test_what_is_no_file_is_refused_and_not_followed(tmp_path, put):
    precious = tmp_path / "precious"
    precious.write_text("kept")
    put(lock_path())
    with pytest.raises(UsageError, match="cannot be a lock"), measuring(wait_s=0):
        pass
    assert precious.read_text() == "kept"


def test_a_user_without_a_directory_of_his_own_is_told_what_to_do(machine, monkeypatch, tmp_path):
    (tmp_path / "prepared").symlink_to(tmp_path)
    monkeypatch.setattr(measuring_lock, "_candidates", lambda: [tmp_path / "prepared"])
    with pytest.raises(UsageError, match=r"prepared: no directory.*SKYMARK_LOCK"):
        lock_path()


@given(st.binary(max_size=80))
def test_a_note_of_any_bytes_names_a_holder_in_plain_text(note):
    assert str(Holder.of_note(note)).isprintable()


def test_a_note_is_read_as_it_was_written():
    holder = Holder.of_this_process()
    assert Holder.of_note(holder.note()) == holder
