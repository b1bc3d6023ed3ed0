"""What the machine runs, run here by a real bash: phases, time limit, outcome."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

import psutil
import pytest

from skymark.cloud.machine_script import RESULTS, ROOM_BYTES, script, secrets_file
from skymark.cloud.secret_variables import write_secrets


@pytest.fixture
def run(tmp_path):
    def start(setup, command, limit_s=0):
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "SKYMARK_RUN_ID": "one",
            "SKYMARK_DEADLINE_S": str(limit_s),
        }
        done = subprocess.run(
            ["bash", "-c", script(setup, command)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        outcome = (tmp_path / RESULTS / "one.outcome").read_text().strip()
        return done.returncode, done.stdout, outcome

    return start


def test_the_run_comes_after_the_set_up(run):
    assert run("echo first", "echo second") == (0, "first\nsecond\n", "run 0")


def test_a_failed_set_up_keeps_the_run_from_starting(run):
    assert run("set -e\nfalse\necho never", "echo never") == (1, "", "setup 1")


def test_a_machine_of_an_image_has_no_set_up(run):
    assert run(None, "echo 'it''s' \"$SKYMARK_RUN_ID\"") == (0, "its one\n", "run 0")


def test_the_status_of_a_failed_run_is_kept(run):
    assert run(None, "exit 7") == (1, "", "run 7")


def test_a_run_whose_time_is_up_is_told_to_end(run):
    # timeout sends the signal twice: to the process and to its group.
    waits = """trap 'trap "" TERM; echo told; exit 0' TERM; sleep 60 & wait"""
    assert run(None, waits, limit_s=3) == (1, "told\n", "run 124")


def test_a_cancelled_job_writes_down_how_it_ended(tmp_path):
    told = """trap 'exit 130' TERM; echo begun; sleep 60 & wait"""
    with subprocess.Popen(
        ["bash", "-c", script("true", told)],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SKYMARK_RUN_ID": "one"},
        stdout=subprocess.PIPE,
        text=True,
    ) as job:
        assert job.stdout.readline() == "begun\n"
        for process in [psutil.Process(job.pid), *psutil.Process(job.pid).children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):  # it may have ended with its parent
                process.terminate()
    assert job.returncode == 1
    assert (tmp_path / RESULTS / "one.outcome").read_text() == "run 130\n"


def test_the_run_alone_has_the_secrets_and_takes_their_file_away(run, tmp_path):
    path = tmp_path / secrets_file("one")
    write_secrets(path, {"KEY": "it's $HOME;\nnext"})
    assert path.stat().st_mode & 0o777 == 0o600
    shows = 'echo "${KEY-none}"'
    assert run(shows, shows) == (0, "none\nit's $HOME;\nnext\n", "run 0")
    assert not path.exists()


def test_the_set_up_counts_into_the_time(run):
    assert run("sleep 60", "echo never", limit_s=1) == (1, "", "setup 124")


def test_room_is_kept_on_the_disk_until_the_run_has_ended(run, tmp_path):
    shows = f"du --bytes ~/{RESULTS}/one.room | cut -f 1"
    assert run(None, shows) == (0, f"{ROOM_BYTES}\n", "run 0")
    assert [path.name for path in (tmp_path / RESULTS).iterdir()] == ["one.outcome"]
