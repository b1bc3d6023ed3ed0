"""A closed terminal ends nothing: the output goes on in a file."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import signal, sys, time
from pathlib import Path
from skymark.cli.terminal import Hangup

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
hangup = Hangup(Path(sys.argv[1]))
hangup.outlive()
hangup.say("at work")
while not Path(sys.argv[2]).exists():
    time.sleep(0.01)
hangup.say("results verified")
print("a table")
"""


def at_work(log: Path, closed: Path, **streams) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", PROGRAM, str(log), str(closed)]
    return subprocess.Popen(command, start_new_session=True, **streams)


def test_after_a_closed_terminal_the_output_is_in_a_file_and_the_work_is_done(tmp_path):
    log, closed = tmp_path / "results" / "run.log", tmp_path / "closed"
    ours, theirs = pty.openpty()
    process = at_work(log, closed, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    while b"\n" not in said:  # else the rest of the line finds no terminal
        said += os.read(ours, 1000)
    assert b"at work" in said
    assert not log.exists()
    os.close(ours)
    process.send_signal(signal.SIGHUP)
    closed.write_text("")
    assert process.wait(60) == 0
    said = log.read_text()
    assert said.startswith("skymark: the terminal ")
    assert "skymark: results verified" in said
    assert "a table" in said


def test_what_nobody_reads_any_more_goes_to_the_file_too(tmp_path):
    log, closed = tmp_path / "run.log", tmp_path / "closed"
    process = at_work(log, closed, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert b"at work" in process.stderr.readline()
    process.stderr.close()
    closed.write_text("")
    assert process.wait(60) == 0
    assert "results verified" in log.read_text()


@pytest.mark.parametrize("place", ["file/run.log", "run.log/"])
def test_where_no_file_can_be_written_the_work_is_done_all_the_same(tmp_path, place):
    (tmp_path / "file").write_text("")
    (tmp_path / "run.log").mkdir()
    closed = tmp_path / "closed"
    process = at_work(tmp_path / place, closed, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert b"at work" in process.stderr.readline()
    process.stderr.close()
    process.send_signal(signal.SIGHUP)
    closed.write_text("")
    assert process.wait(60) == 0
