"""Workers that share a plan by a split: their parts become one run in the store."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skymark.rundir.reader import open_run

PLAN = (
    "--scenarios",
    "TAB-1:tiny",
    "NLP-1:tiny",
    "PC-1:tiny",
    "--adapters",
    "numpy",
    "--effort",
    "check",
)
CELLS = 6
TIMEOUT_S = 900.0

Worker = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    """Run one worker in a directory of its own; all of them store in one place."""
    (tmp_path / "store").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    own = {
        "SKYMARK_CACHE": str(tmp_path / "cache"),
        "SKYMARK_LOCK": str(tmp_path / "machine.lock"),
    }

    def run(name: str, split: str, **variables: str) -> subprocess.CompletedProcess[str]:
        store = f"file://{tmp_path / 'store'}"
        command = ("run", *PLAN, "--env", "current", "--split", split, "--store", store, "--resume")
        return subprocess.run(
            [sys.executable, "-m", "skymark", *command, "--output", str(tmp_path / name / "whole")],
            env=kept | variables | own,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    return run


def task(number: int) -> dict[str, str]:
    return {"SLURM_ARRAY_TASK_ID": str(number), "SKYMARK_ARRAY": "1,5,9"}


def stored(tmp_path: Path) -> dict[str, bytes]:
    folder = tmp_path / "store" / "whole" / "records"
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_parts_of_all_workers_are_one_run_and_a_restarted_one_measures_nothing(
    worker: Worker, tmp_path: Path
) -> None:
    counts = []
    for number in (1, 5, 9):
        done = worker(f"task-{number}", "longest", **task(number))
        assert done.returncode == 0, done.stderr
        counts.append(len(stored(tmp_path)))
    assert counts == sorted(set(counts))
    assert counts[-1] == CELLS
    whole = open_run(tmp_path / "store" / "whole")
    assert whole.manifest.finished
    assert {record.status for record in whole.records} == {"ok"}
    before = stored(tmp_path)
    again = worker("elsewhere", "longest", **task(5))
    assert again.returncode == 0, again.stderr
    told = r"rank 1 of 3\b.* SLURM_ARRAY_TASK_ID=5\b.* SKYMARK_ARRAY=1,5,9"
    assert re.search(told, again.stderr)
    assert stored(tmp_path) == before


def test_workers_at_the_same_time_leave_a_run_that_is_whole(worker: Worker, tmp_path: Path) -> None:
    """Whoever ends last finds the others' records in the store, and writes the manifest."""
    from concurrent.futures import ThreadPoolExecutor

    pods = [{"JOB_COMPLETION_INDEX": str(index)} for index in (0, 1, 1)]  # two may share one
    with ThreadPoolExecutor(3) as pool:
        ends = list(
            pool.map(lambda one: worker(f"pod-{one}", "even:2", **pods[one]), range(len(pods)))
        )
    assert [end.returncode for end in ends] == [0, 0, 0], "".join(end.stderr for end in ends)
    whole = open_run(tmp_path / "store" / "whole")
    assert whole.manifest.finished
    assert whole.manifest.counts == {"ok": CELLS}
    manifest = json.loads((tmp_path / "store" / "whole" / "manifest.json").read_text())
    assert len(stored(tmp_path)) == len(manifest["plan"]["cells"])


def test_a_worker_without_work_ends_well(worker: Worker, tmp_path: Path) -> None:
    done = worker("idle", "even:20", JOB_COMPLETION_INDEX="0")
    assert done.returncode == 0, done.stderr
    assert f"0 of {CELLS} cells" in done.stderr
