"""Each job has a directory of its own, and none outlives its job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from skymark.cache.location import folder_of, library_variables
from skymark.cache.sharing import JOBS, job_directory, job_name, sweep_jobs
from skymark.leases import ABANDONED_S

JOB = """
import os, sys, time
from pathlib import Path
from skymark.cache.sharing import job_directory
with job_directory(Path(sys.argv[1]), {"SLURM_JOB_ID": "4711"}, print) as directory:
    (directory / "data").write_text("x")
    print(directory, flush=True)
    time.sleep(600)
"""


def said(_):
    return None


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, ""),
        ({"SLURM_JOB_ID": "4711"}, "4711"),
        ({"SLURM_JOB_ID": "4711", "SLURM_PROCID": "3", "SLURM_STEP_ID": "0"}, "4711-0-3"),
        ({"PBS_JOBID": "12[3].server"}, "12_3__server"),
        ({"JOB_ID": "../../etc"}, "______etc"),
        ({"REPLICATED_JOB_NAME": "worker", "JOB_INDEX": "2"}, "worker-2"),
    ],
)
def test_a_job_is_named_by_its_scheduler(variables, name):
    assert job_name(variables) == name


def test_the_directory_is_the_job_s_own_and_goes_at_its_end(tmp_path):
    variables = {"SLURM_JOB_ID": "4711"}
    with (
        job_directory(tmp_path, variables, said) as one,
        job_directory(tmp_path, variables, said) as other,
    ):
        assert one.name == "4711"
        assert other.name.startswith("4711-")
        assert one.is_dir()
        assert other.is_dir()
        sealed = one / "sealed"
        sealed.mkdir()
        (sealed / "file").touch()
        sealed.chmod(0o555)
    assert not one.exists()
    assert not other.exists()


def test_what_a_killed_job_left_is_swept_by_the_next_and_that_of_a_live_one_is_not(tmp_path):
    command = [sys.executable, "-c", JOB, os.fspath(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
        directory = tmp_path / JOBS / "4711"
        assert job.stdout.readline().strip() == os.fspath(directory)
        assert sweep_jobs(tmp_path) == []
        job.kill()
    assert directory.is_dir()
    told = []
    with job_directory(tmp_path, {"SLURM_JOB_ID": "4712"}, told.append):
        assert not directory.exists()
    (line,) = told
    assert str(directory) in line


def test_a_dead_job_of_another_machine_is_told_by_the_clock_of_the_disk(tmp_path):
    directory = tmp_path / JOBS / "4711"
    directory.mkdir(parents=True)
    claim = tmp_path / JOBS / ".leases" / "4711.1"
    claim.parent.mkdir()
    tenant = {"token": "x", "machine": "elsewhere", "pid": 1, "began_s": 0.0}
    claim.write_text(json.dumps(tenant))
    assert sweep_jobs(tmp_path) == []
    long_ago_s = claim.stat().st_mtime - ABANDONED_S - 10
    os.utime(claim, (long_ago_s, long_ago_s))
    assert sweep_jobs(tmp_path) == ["4711"]


def test_two_data_sets_whose_shards_have_the_same_names_have_a_folder_each(tmp_path):
    one = library_variables(tmp_path, folder_of(["http://a/cats/0.tar", "http://a/cats/1.tar"]))
    other = library_variables(tmp_path, folder_of(["http://a/dogs/0.tar", "http://a/dogs/1.tar"]))
    assert one["WDS_CACHE"] != other["WDS_CACHE"]
    assert one["HF_DATASETS_CACHE"] == other["HF_DATASETS_CACHE"]
    assert "HF_HOME" not in one
    assert all(Path(place).is_dir() for place in one.values())
