"""Jobs that share a cache: any of them may be killed at any time, and locks may lie."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from skymark.cache.sharing import sweep_jobs
from tests.waiting import until

JOBS = 5
SIZE = 200_000
LYING = Path(__file__).with_name("flock.c")

FILL = """
import os, pathlib, sys, time
pathlib.Path(sys.argv[1]).open("a").write("x")
place = pathlib.Path(os.environ["HF_DATASETS_CACHE"])
for number in range(10):
    (place / f"{number}.arrow").write_bytes(bytes([number]) * int(sys.argv[2]))
    time.sleep(0.05)
"""
JOB = """
import os, pathlib, sys, time
place = pathlib.Path(os.environ["HF_DATASETS_CACHE"])
for _ in range(5):
    for number in range(10):
        data = (place / f"{number}.arrow").read_bytes()
        assert data == bytes([number]) * int(sys.argv[1]), (number, len(data))
    (place / "mine.lock").touch()
    time.sleep(0.05)
print("all rows")
"""
LONG_JOB = """
import os, time
print(os.environ["SKYMARK_CACHE_JOB"], flush=True)
time.sleep(600)
"""


@pytest.fixture
def lying(tmp_path):
    """Variables of processes for which every lock succeeds at once."""
    library = tmp_path / "flock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, LYING], check=True)
    return {"LD_PRELOAD": str(library)}


@pytest.fixture
def place(tmp_path):
    (tmp_path / "fill.py").write_text(FILL)
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "calls").touch()
    return tmp_path


def start(place, number, variables):
    prepare = f"{sys.executable} {place / 'fill.py'} {place / 'calls'} {SIZE}"
    command = [
        *(sys.executable, "-m", "skymark", "cache", "use", "--cache-policy", "shared"),
        *("--cache-root", str(place / "root"), "--prepare", prepare),
        *("--", sys.executable, str(place / "job.py"), str(SIZE)),
    ]
    own = {"SLURM_JOB_ID": "4711", "SLURM_PROCID": str(number)}
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables, **own},
        start_new_session=True,
    )


def kill_tree(process, *, whole):
    """Kill a job alone, or with all that it started; what it started ends by itself."""
    with contextlib.suppress(psutil.Error):
        below = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        for one in below if whole else ():
            with contextlib.suppress(psutil.Error):
                one.kill()


def assert_read_all(job):
    out, err = job.communicate(timeout=120)
    assert job.returncode == 0, err
    assert out == "all rows\n"


def left(place):
    folders = (place / "root" / "jobs", place / "root" / "prepared")
    return [path.name for folder in folders for path in folder.glob("*") if path.name != ".leases"]


@pytest.mark.needs("compiler")
def test_jobs_that_start_at_once_build_once_where_every_lock_lies(place, lying):
    jobs = [start(place, number, lying) for number in range(JOBS)]
    for job in jobs:
        assert_read_all(job)
    assert (place / "calls").read_text() == "x"
    assert len(left(place)) == 1


@pytest.mark.needs("compiler")
def test_locks_lie_in_this_test_indeed(place, lying):
    script = (
        "import fcntl, sys\n"
        "one, other = open(sys.argv[1]), open(sys.argv[1])\n"
        "fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
    )
    command = [sys.executable, "-c", script, str(place / "calls")]
    honest = subprocess.run(command, check=False, stderr=subprocess.DEVNULL)
    assert honest.returncode != 0
    subprocess.run(command, check=True, env={**os.environ, **lying})


@pytest.mark.parametrize("whole", [False, True], ids=["alone", "with all below"])
@pytest.mark.needs("compiler")
def test_any_job_may_be_killed_at_any_time(place, moments, chance, lying, whole):
    for _ in range(moments):
        shutil.rmtree(place / "root", ignore_errors=True)
        (place / "calls").write_text("")
        jobs = [start(place, number, lying) for number in range(JOBS)]
        at_s = chance.uniform(0.3, 3)
        time.sleep(at_s)
        victim = chance.choice(jobs)
        kill_tree(victim, whole=whole)
        for job in jobs:
            if job is not victim:
                assert_read_all(job)
        victim.communicate()
        assert len((place / "calls").read_text()) <= 2, f"killed after {at_s:.3f} s"

        def swept():
            """What the victim started may go on for a while; the next job sweeps what it left."""
            assert_read_all(start(place, 99, lying))
            return len(left(place)) == 1

        until(swept, 60, f"the sweep, killed after {at_s:.3f} s")


def test_a_command_whose_skymark_was_killed_keeps_its_directory_until_it_ends(place):
    (place / "job.py").write_text(LONG_JOB)
    job = start(place, 0, {})
    directory = Path(job.stdout.readline().strip())
    until((directory / "command.json").exists, 120, "the note of the process")
    (command,) = psutil.Process(job.pid).children()
    job.kill()
    job.wait()
    assert sweep_jobs(place / "root") == []
    assert directory.is_dir()
    command.kill()
    until(lambda: not psutil.pid_exists(command.pid), 120, "the end of the command")
    assert sweep_jobs(place / "root") == ["4711-0"]
    job.communicate()


def test_a_job_that_is_told_to_stop_clears_away_what_was_its_own(place):
    (place / "job.py").write_text(LONG_JOB)
    job = start(place, 0, {})
    directory = Path(job.stdout.readline().strip())
    until((directory / "command.json").exists, 120, "the note of the process")
    job.terminate()
    job.communicate(timeout=60)
    assert job.returncode == 130
    assert not directory.exists()
    assert not list((place / "root" / "jobs").glob("4711*"))
