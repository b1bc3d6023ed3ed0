"""Workers that are forked from a parent which has imported their library: fresh ones."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from skymark.execute.process import DIED, WorkerError, WorkerProcess
from skymark.execute.starting import WorkerKind
from skymark.execute.sweeps import run_sweeps
from skymark.execute.worker_pool import WorkerPool
from skymark.model.record import Status
from tests.scripted_suite import EFFORT, cell_of, plan_of

pytestmark = [
    pytest.mark.usefixtures("processes_without_coverage"),
    pytest.mark.skipif(sys.platform != "linux", reason="forks are tried on Linux only"),
]

MB = 1 << 20


@pytest.fixture
def kind(tmp_path):
    return WorkerKind(Path(sys.executable), "scripted:ScriptedRunner", tmp_path)


@pytest.fixture
def pool():
    told = []
    with closing(WorkerPool(told.append, keeps=False)) as pool:
        pool.told = told
        yield pool
    assert told == []


@pytest.fixture
def round_of(pool, kind, tmp_path):
    """Measure a round of an adapter's cell in a worker of its own; return the round."""
    numbers = iter(range(100))

    def measure(adapter, **settings):
        cell = cell_of(adapter, **settings)
        worker = pool.take(kind, adapter, [cell], tmp_path / "cell.log")
        try:
            worker.await_ready()
            return worker.measure(cell, next(numbers), EFFORT, tmp_path / "cell.log").told.result
        finally:
            pool.give_back(worker)

    return measure


def lines_of(tmp_path, *dos):
    lines = map(json.loads, (tmp_path / "journal.jsonl").read_text().splitlines())
    return [line for line in lines if line["do"] in dos]


def parent_of(tmp_path):
    """Return the pid of the process that imported last."""
    return lines_of(tmp_path, "import")[-1]["pid"]


def test_each_round_is_a_fresh_fork_of_one_process_that_imported(round_of, tmp_path):
    for _ in range(3):
        round_of("forks")
    assert len(lines_of(tmp_path, "import")) == 1
    assert [line["first"] for line in lines_of(tmp_path, "forked")] == [True, False, False]
    pids = [line["pid"] for line in lines_of(tmp_path, "measure")]
    assert len({*pids, parent_of(tmp_path)}) == 4
    closed = [line["pid"] for line in lines_of(tmp_path, "close")]
    assert closed == pids, "each fork closes its own runner, and the parent has none to close"


@pytest.mark.parametrize(
    ("adapter", "words"),
    [
        ("forks-with-thread", "1 thread"),
        ("forks-with-process", "started a process"),
        ("forks-with-connection", "socket:"),
        ("a", "not allow"),
    ],
)
def test_what_a_fork_would_break_has_a_process_of_its_own_for_each_round(
    adapter, words, kind, pool, tmp_path, round_of
):
    cell = cell_of(adapter)
    worker = pool.take(kind, adapter, [cell], tmp_path / "cell.log")
    worker.await_ready()
    (parent,) = pool.parents
    pool.give_back(worker)
    assert words in parent.obstacle
    for _ in range(2):
        round_of(adapter)
    assert lines_of(tmp_path, "forked") == []
    assert len({line["pid"] for line in lines_of(tmp_path, "measure")}) == 2


def test_a_fork_has_the_memory_of_a_process_that_imported_by_itself(round_of, kind, tmp_path):
    """The parent holds 256 MB: half of that would be missing if shared pages were divided."""
    cell = cell_of("forks-with-memory")
    alone = WorkerProcess(kind, cell, tmp_path / "cell.log")
    try:
        alone.await_ready()
        fresh = alone.measure(cell, 0, EFFORT, tmp_path / "cell.log").told.result
    finally:
        alone.end()
    forked = [round_of("forks-with-memory").resources.peak_pss_bytes for _ in range(2)]
    fresh_bytes = fresh.resources.peak_pss_bytes
    assert fresh_bytes > 256 * MB
    assert forked == pytest.approx([fresh_bytes] * 2, rel=0.03)


def test_a_parent_that_waits_does_not_halve_the_memory_of_another_adapters_round(round_of):
    alone = round_of("forks").resources.peak_pss_bytes
    for number in range(3):
        round_of(f"forks-{number}")
    assert round_of("forks").resources.peak_pss_bytes == pytest.approx(alone, rel=0.1)


def test_work_of_the_import_is_not_the_rounds(round_of):
    for _ in range(2):
        assert round_of("forks-with-work").resources.cpu_s < 0.5


def test_a_fork_that_crashes_leaves_its_parent_to_fork_again(round_of, tmp_path):
    with pytest.raises(WorkerError, match="signal 9") as died:
        round_of("forks", does="kill")
    assert died.value.cause.kind == DIED
    round_of("forks")
    assert len(lines_of(tmp_path, "import")) == 1


def test_a_parent_that_was_killed_is_named_and_replaced(round_of, pool, kind, tmp_path):
    cell = cell_of("forks")
    worker = pool.take(kind, "forks", [cell], tmp_path / "cell.log")
    worker.await_ready()
    os.kill(parent_of(tmp_path), signal.SIGKILL)
    with pytest.raises(WorkerError, match=r"\bforked\b.*\bsignal 9\b") as died:
        worker.measure(cell, 0, EFFORT, tmp_path / "cell.log")
    assert died.value.cause.kind == DIED
    pool.give_back(worker)
    round_of("forks")
    assert len(lines_of(tmp_path, "import")) == 2


def test_processes_that_a_fork_leaves_are_ended_and_named_and_its_parent_lives(
    pool, kind, tmp_path
):
    cell = cell_of("forks", does="leak")
    worker = pool.take(kind, "forks", [cell], tmp_path / "cell.log")
    worker.await_ready()
    worker.measure(cell, 0, EFFORT, tmp_path / "cell.log")
    pool.give_back(worker)
    assert len(worker.leaked) == 1
    assert "sleep 3600" in worker.leaked[0]
    assert psutil.Process(parent_of(tmp_path)).children() == []


def test_a_fork_that_hangs_is_killed_without_its_parent(pool, kind, round_of, tmp_path):
    cell = cell_of("forks", does="hang")
    worker = pool.take(kind, "forks", [cell], tmp_path / "cell.log")
    worker.await_ready()
    with pytest.raises(WorkerError, match=r"\b0\.5 s\b") as late:
        worker.measure(
            cell, 0, EFFORT.model_copy(update={"cell_timeout_s": 0.5}), tmp_path / "cell.log"
        )
    assert late.value.timed_out
    worker.kill()
    round_of("forks")
    assert len(lines_of(tmp_path, "import")) == 1


def test_output_of_a_fork_goes_to_its_own_log(pool, kind, tmp_path):
    for name in ("first", "second"):
        cell = cell_of("forks", name, does="print")
        worker = pool.take(kind, "forks", [cell], tmp_path / f"{name}.log")
        worker.await_ready()
        worker.measure(cell, 0, EFFORT, tmp_path / f"{name}.log")
        pool.give_back(worker)
        assert (tmp_path / f"{name}.log").read_text().count("a library that talks") == 1


def test_nothing_is_left_of_a_parent_when_the_pool_is_closed_or_the_engine_killed(kind, tmp_path):
    engine = psutil.Popen([sys.executable, "-c", ENGINE, str(tmp_path)])
    while not (tmp_path / "journal.jsonl").exists() or not lines_of(tmp_path, "measure"):
        assert engine.poll() is None
        time.sleep(0.01)
    processes = [psutil.Process(line["pid"]) for line in lines_of(tmp_path, "import", "measure")]
    engine.kill()
    engine.wait()
    gone, alive = psutil.wait_procs(processes, 60)
    assert (len(gone), alive) == (2, [])


ENGINE = """
import sys
from pathlib import Path
from skymark.execute.starting import WorkerKind
from skymark.execute.worker_pool import WorkerPool
from tests.scripted_suite import EFFORT, cell_of
here = Path(sys.argv[1])
cell = cell_of("forks", does="hang")
pool = WorkerPool(print, keeps=False)
kind = WorkerKind(Path(sys.executable), "scripted:ScriptedRunner", here)
worker = pool.take(kind, "forks", [cell], here / "cell.log")
worker.await_ready()
worker.measure(cell, 0, EFFORT.model_copy(update={"cell_timeout_s": 900}), here / "cell.log")
"""


def test_an_adapter_is_imported_once_in_a_whole_run(bed):
    scenarios, adapters = ("S-1", "S-2"), ("forks", "a")
    cells = [cell_of(adapter, scenario) for scenario in scenarios for adapter in adapters]
    effort = EFFORT.model_copy(update={"min_rounds": 3, "max_rounds": 3})
    records = run_sweeps(bed.measurer(plan_of(*cells, effort=effort)))
    assert {record.status for record in records} == {Status.OK}
    assert [line["adapter"] for line in bed.journal("import")] == ["forks"]
    served = {(line["adapter"], line["pid"], line["round"]) for line in bed.journal("measure")}
    assert len(served) == len({pid for _, pid, _ in served}) == 6


def test_the_first_that_measures_is_told_so_though_others_prepared_before(pool, kind, tmp_path):
    log, cell = tmp_path / "cell.log", cell_of("forks")
    for work in ("prepare", "measure", "measure"):
        worker = pool.take(kind, "forks", [cell], log)
        worker.await_ready()
        worker.prepare(cell, log, 60) if work == "prepare" else worker.measure(cell, 0, EFFORT, log)
        pool.give_back(worker)
    assert [line["first"] for line in lines_of(tmp_path, "forked")] == [True, True, False]
