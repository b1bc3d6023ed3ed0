"""Submissions: the shell that runs a job in its own source, run here by a real bash."""

from __future__ import annotations

import os
import re
import subprocess

from skymark.cloud.machine_script import beside_others, source_place, within
from skymark.cloud.submissions import job_name, new_submission


def bash(script, home, **variables):
    return subprocess.run(
        ["bash", "-c", script],
        env={"HOME": str(home), "PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_job_runs_in_the_source_of_its_submission_and_imports_from_it(tmp_path):
    for one in ("first", "second"):
        package = tmp_path / source_place(one) / "src"
        package.mkdir(parents=True)
        (package / "mine.py").write_text(f"print('{one}')")
    done = bash(within("first", "python3 -c 'import mine'; pwd"), tmp_path)
    assert done.stdout == f"first\n{tmp_path / source_place('first')}\n"


def test_a_job_whose_source_is_not_there_runs_nothing(tmp_path):
    done = bash(within("gone", "echo ran"), tmp_path)
    assert (done.returncode, done.stdout) == (1, "")


def test_no_two_submissions_share_a_directory():
    names = {new_submission() for _ in range(100)}
    assert len(names) == 100
    assert all(re.fullmatch(r"[0-9a-f-]+", name) for name in names)


def test_measurements_on_the_same_cards_wait_for_one_another_and_for_no_others(tmp_path):
    shows = beside_others('echo "${SKYMARK_LOCK-the machine}"')
    locks = [
        bash(shows, tmp_path, CUDA_VISIBLE_DEVICES=cards).stdout for cards in ("0,1", "2", "2", "")
    ]
    assert locks[0] == f"{tmp_path}/.skymark-cards-0-1.lock\n"
    assert locks[1] == locks[2] != locks[0]
    assert locks[3] == "the machine\n"


def test_a_job_s_name_is_one_that_skypilot_takes():
    assert (
        job_name("20260101-cpu-workers-0_batch.size-16") == "20260101-cpu-workers-0-batch-size-16"
    )
