"""SIGKILL at random moments: of the worker, of the engine, of all processes at once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import replace

import psutil
import pytest

from skymark.model.record import Status
from tests.faults.runs import WITNESS, Case, interrupted, started_below, workers_of
from tests.waiting import until


def kill_engine(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Kill the engine alone; returns what it had started."""
    left = started_below(process)
    process.kill()
    return left


def kill_all(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Kill the engine's process group, its workers and all that they started."""
    left = started_below(process)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for one in left:
        with contextlib.suppress(psutil.Error):
            one.kill()
    return left


@pytest.mark.parametrize(
    ("fault", "kill"),
    [
        ("engine killed (SIGKILL)", kill_engine),
        ("whole process tree killed (SIGKILL)", kill_all),
    ],
)
def test_a_killed_run_repeats_at_most_the_round_that_ran(
    tmp_path, moments, chance, usual_s, table, fault, kill
):
    for _ in range(moments):
        case, process, at_s = interrupted(tmp_path, chance, usual_s)
        left = kill(process)
        until(lambda left=left: not psutil.wait_procs(left, 0)[1], 120, "the end of the workers")
        case.finish(process)
        case.faulted()
        status, stderr = case.run("--resume")
        assert status == 0, stderr
        row = case.row()
        table.add(fault, row)
        assert row.lost == 0, f"killed after {at_s:.3f} s"
        assert row.repeated <= 1, f"killed after {at_s:.3f} s"


def test_a_killed_worker_fails_its_cells_and_a_retry_measures_only_those(
    tmp_path, moments, chance, usual_s, table
):
    for _ in range(moments):
        case, process, at_s = interrupted(tmp_path, chance, usual_s)
        killed = []
        while not killed and process.poll() is None:
            for worker in workers_of(process)[:1]:
                with contextlib.suppress(psutil.Error):
                    worker.kill()
                    killed.append(worker)
        status, stderr = case.finish(process)
        case.kept = case.on_disk()
        records = case.records()
        assert len(records) == 4
        failed = [id for id, one in records.items() if one.status is Status.FAILED]
        assert status == bool(failed), stderr
        assert all("signal 9" in records[id].cause.message for id in failed)
        status, stderr = case.run("--resume", "--retry", "failed")
        assert status == 0, stderr
        row = case.row(again=failed)
        table.add("worker killed (SIGKILL)", row)
        assert row.lost == 0, f"killed after {at_s:.3f} s"
        repeated = {id for id in records if case.begun().count(id) > 2}
        assert repeated <= set(failed), f"killed after {at_s:.3f} s"


def test_a_run_of_96_cells_that_is_killed_again_and_again_repeats_only_what_was_running(
    tmp_path, moments, chance, table
):
    adapters = [f"{WITNESS}:{name}" for name in ("Witness", "Second", "Third", "Fourth")]
    depths = ",".join(str(depth) for depth in range(1, 25))
    case = Case(
        tmp_path,
        (
            *("--scenarios", "PC-1", "--axis", f"depth={depths}", "--adapters", *adapters),
            *("--rounds", "1", "--effort", "check"),
        ),
    )
    kills = 0
    for stop in sorted(chance.sample(range(1, 96), max(2, moments))):
        process = case.start("--resume")
        until(lambda stop=stop: len(case.begun()) >= stop, seconds=1200, what=f"round {stop}")
        time.sleep(chance.uniform(0, 0.3))
        kill_all(process)
        case.finish(process)
        case.faulted()
        kills += 1
    status, stderr = case.run("--resume", timeout=1200)
    assert status == 0, stderr
    row = case.row()
    table.add("96 cells, killed again and again", replace(row, moments=kills))
    assert (row.cells, row.stored, row.lost) == (96, 96, 0)
    assert row.repeated <= kills


def test_a_run_killed_before_its_manifest_was_written_can_be_started_again(tmp_path):
    """What SIGKILL or a power cut leaves between the directory and the manifest."""
    case = Case(tmp_path)
    case.output.mkdir()
    (case.output / ".lock").touch()
    (case.output / ".manifest.part").write_text("{")
    status, stderr = case.run("--resume")
    assert status == 0, stderr
    assert case.row().repeated == 0
