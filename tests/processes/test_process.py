"""A worker process: what it answers, how its faults are told, and that nothing of it stays."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from skymark.execute import process
from skymark.execute.process import WorkerError, WorkerKind, WorkerProcess
from skymark.execute.venvs import import_root
from skymark.model.record import Resources
from tests.scripted_suite import EFFORT, cell_of

pytestmark = pytest.mark.usefixtures("processes_without_coverage")

QUICK = EFFORT.model_copy(update={"cell_timeout_s": 2.0})


@pytest.fixture
def log(tmp_path):
    return tmp_path / "cell.log"


@pytest.fixture
def start(tmp_path, log):
    """Start a worker that is ended after the test."""
    workers = []

    def starting(adapter="a", python=Path(sys.executable), root=None, **options):
        kind = WorkerKind(python, "scripted:ScriptedRunner", tmp_path, root, **options)
        worker = WorkerProcess(kind, cell_of(adapter), log)
        workers.append(worker)
        return worker

    yield starting
    for worker in workers:
        worker.end()


def processes_of(worker):
    found = []
    for one in psutil.process_iter():
        try:
            if one.environ().get("SKYMARK_WORKER") == worker.id:
                found.append(one.pid)
        except psutil.Error:
            continue
    return found


def test_a_worker_measures_and_answers_with_result_and_versions(start, log):
    worker = start()
    worker.await_ready()
    measured = worker.measure(cell_of("a", ms="100"), 0, EFFORT, log).told
    worker.end()
    assert measured.result.timed_ns == 100_000_000
    assert measured.result.metrics == {"steps_per_s": 40.0, "step_ns": 25_000_000}
    assert measured.result.samples == {"step_ns": (25_000_000,) * 4}
    assert measured.result.conditions == {"mood": "calm"}
    assert measured.versions == {"library": "1"}
    assert worker.leaked == ()


def test_processor_time_and_memory_of_the_timed_region_are_those_that_were_used(start, log):
    worker = start()
    worker.await_ready()
    idle = worker.measure(cell_of("a"), 0, EFFORT, log).told.result.resources
    busy = worker.measure(cell_of("a", does="allocate"), 0, EFFORT, log).told.result.resources
    assert 0.28 < busy.cpu_s - idle.cpu_s < 0.8
    assert 240 << 20 < busy.peak_pss_bytes - idle.peak_pss_bytes < 290 << 20
    assert busy.processes == 1


def test_a_worker_sees_skymark_through_the_import_root_and_nothing_beside_it(tmp_path, start, log):
    root = import_root(tmp_path)
    assert [path.name for path in root.iterdir()] == ["skymark"]
    assert import_root(tmp_path) == root
    bare = [sys.executable, "-S", "-c", "import skymark; import pytest"]
    done = subprocess.run(
        bare, env={"PYTHONPATH": str(root)}, capture_output=True, text=True, check=False
    )
    assert "No module named 'pytest'" in done.stderr
    worker = start(root=root)
    worker.await_ready()
    assert worker.measure(cell_of("a"), 0, EFFORT, log).told.result.round == 0


@pytest.mark.parametrize("named", ["", ":", "{own}:"])
def test_a_module_in_the_current_directory_is_not_imported(
    tmp_path, start, log, monkeypatch, named
):
    for name in ("numpy", "json", "scripted", "pydantic"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a stranger in the data folder')")
    own = os.environ["SKYMARK_WORKER_PATH"]
    monkeypatch.setenv("SKYMARK_WORKER_PATH", f":{own}:{named.format(own=own)}")
    monkeypatch.chdir(tmp_path)
    worker = start()
    worker.await_ready()
    assert worker.measure(cell_of("a"), 0, EFFORT, log).told.versions == {"library": "1"}


def test_a_worker_and_its_children_have_none_of_the_callers_secrets(start, log, monkeypatch):
    for name in ("WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "PRIVATE"):
        monkeypatch.setenv(name, "canary-of-the-caller")
    worker = start()
    worker.await_ready()
    worker.measure(cell_of("a", does="leak"), 0, EFFORT, log)
    pids = processes_of(worker)
    seen = [Path(f"/proc/{pid}/environ").read_bytes() for pid in pids]
    assert len(seen) > 1
    assert not any(b"canary" in one for one in seen)


def test_what_a_library_prints_goes_to_the_log_and_not_into_the_protocol(start, log):
    worker = start()
    worker.await_ready()
    assert worker.measure(cell_of("a", does="print"), 0, EFFORT, log).told.versions
    worker.end()
    assert "a library that talks" in log.read_text()


def test_an_exception_is_the_cells_failure_and_the_worker_goes_on(start, log):
    worker = start()
    worker.await_ready()
    with pytest.raises(WorkerError) as caught:
        worker.measure(cell_of("a", does="raise"), 0, EFFORT, log)
    assert caught.value.alive
    assert caught.value.cause.kind == "RuntimeError"
    assert caught.value.cause.message.startswith("RuntimeError: ")
    assert "Traceback" in log.read_text()
    assert worker.measure(cell_of("a"), 1, EFFORT, log).told.result.round == 1


def test_skymarks_own_errors_are_told_without_their_class(start, log):
    worker = start()
    worker.await_ready()
    with pytest.raises(WorkerError) as caught:
        worker.measure(cell_of("a", does="refuse"), 0, EFFORT, log)
    assert caught.value.cause.kind == "UsageError"
    assert caught.value.cause.message.startswith("that setting ")


@pytest.mark.parametrize(
    ("does", "words"), [("kill", "killed by signal 9"), ("exit", "exited with status 4")]
)
def test_a_worker_that_ends_is_told_with_how(start, log, does, words):
    worker = start()
    worker.await_ready()
    with pytest.raises(WorkerError) as caught:
        worker.measure(cell_of("a", does=does), 0, EFFORT, log)
    assert not caught.value.alive
    assert not caught.value.timed_out
    assert caught.value.cause.kind == "worker-died"
    assert words in caught.value.cause.message
    with pytest.raises(WorkerError, match=words):
        worker.measure(cell_of("a"), 1, EFFORT, log)


def test_only_a_kill_is_said_to_be_perhaps_the_kernels(start, log):
    actions = []
    for does in ("kill", "exit"):
        worker = start()
        worker.await_ready()
        with pytest.raises(WorkerError) as caught:
            worker.measure(cell_of("a", does=does), 0, EFFORT, log)
        actions.append(caught.value.cause.action)
    assert ["kernel" in action for action in actions] == [True, False]
    assert all("cell's log" in action for action in actions)


def test_a_worker_that_hangs_times_out_and_its_whole_tree_is_ended(start, log):
    worker = start()
    worker.await_ready()
    begin = time.monotonic()
    with pytest.raises(WorkerError) as caught:
        worker.measure(cell_of("a", does="hang"), 0, QUICK, log)
    assert 1.9 < time.monotonic() - begin < 600  # it hangs for an hour
    assert caught.value.timed_out
    assert "2 s" in caught.value.cause.message
    assert "--timeout" in caught.value.cause.action
    worker.kill()
    assert processes_of(worker) == []
    worker.kill()
    worker.end()


def test_a_worker_that_closes_its_pipes_but_lives_on_is_told_so(start, log, monkeypatch):
    monkeypatch.setattr(process, "GRACE_S", 0.5)
    worker = start()
    worker.await_ready()
    with pytest.raises(WorkerError) as caught:
        worker.measure(cell_of("a", does="hide"), 0, EFFORT, log)
    assert caught.value.cause.kind == "worker-silent"
    worker.kill()
    assert processes_of(worker) == []


def test_a_line_that_is_no_message_is_told_with_how_it_begins_and_ends_the_worker(start, log):
    worker = start()
    worker.await_ready()
    with pytest.raises(WorkerError) as caught:
        worker.measure(cell_of("a", does="scribble"), 0, EFFORT, log)
    assert not caught.value.alive
    assert not caught.value.timed_out
    assert caught.value.cause.kind == "worker-garbage"
    assert "'Segmentation \ufffd\ufffd fault'" in caught.value.cause.message
    assert "the cell's log" in caught.value.cause.action
    worker.kill()
    assert processes_of(worker) == []


def test_a_message_of_no_known_kind_is_as_bad_as_no_message(start, log):
    worker = start()
    worker.await_ready()
    with pytest.raises(WorkerError) as caught:
        worker.measure(cell_of("a", does="babble"), 0, EFFORT, log)
    assert caught.value.cause.kind == "worker-garbage"
    assert "brewed" in caught.value.cause.message


def test_a_long_line_that_is_no_message_is_shown_in_part(start, log):
    worker = start()
    worker.await_ready()
    with pytest.raises(WorkerError) as caught:
        worker.measure(cell_of("a", does="gush"), 0, EFFORT, log)
    assert caught.value.cause.kind == "worker-garbage"
    assert len(caught.value.cause.message) < 200


def test_processes_that_serve_the_benchmark_are_left_out_of_what_is_sampled(start, log):
    worker = start()
    worker.await_ready()
    with_child = worker.measure(cell_of("a", does="help"), 0, EFFORT, log).told.result.resources
    worker.end()
    assert worker.leaked == ()
    assert with_child.processes == 1
    assert isinstance(with_child, Resources)


def test_preparing_fails_and_times_out_like_measuring(start, log):
    worker = start()
    worker.await_ready()
    worker.prepare(cell_of("a"), log, 30.0)
    with pytest.raises(WorkerError, match=r"^ValueError: "):
        worker.prepare(cell_of("a", prepare="raise"), log, 30.0)
    with pytest.raises(WorkerError, match=r"\b0\.5 s\b") as caught:
        worker.prepare(cell_of("a", prepare="hang"), log, 0.5)
    assert caught.value.timed_out
    worker.kill()


def test_a_runner_that_cannot_be_made_fails_the_start_with_its_words(start):
    with pytest.raises(WorkerError, match="RuntimeError: no such device"):
        start("fails-to-start").await_ready()


def test_a_runner_that_takes_too_long_to_start_times_out(start, monkeypatch):
    monkeypatch.setattr(process, "START_TIMEOUT_S", 1.0)
    worker = start("never-starts")
    with pytest.raises(WorkerError, match=r"\b1 s\b") as late:
        worker.await_ready()
    assert late.value.timed_out
    worker.kill()
    assert processes_of(worker) == []


def test_a_start_may_take_as_long_as_a_cell_may(start, monkeypatch):
    monkeypatch.setattr(process, "START_TIMEOUT_S", 0.1)
    worker = start("never-starts")
    with pytest.raises(WorkerError, match=r"\b1 s\b") as late:
        worker.await_ready(1.0)
    assert late.value.timed_out
    worker.kill()


def test_an_interpreter_that_is_gone_is_told_and_leaves_no_pipe_open(start, tmp_path):
    before = set(Path("/proc/self/fd").iterdir())
    with pytest.raises(WorkerError, match=os.strerror(errno.ENOENT)) as caught:
        start(python=tmp_path / "python")
    assert caught.value.cause.kind == "worker-start"
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_ending_a_worker_closes_the_adapter_and_can_be_done_twice(start, tmp_path):
    worker = start()
    worker.await_ready()
    worker.end()
    worker.end()
    lines = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    assert [line["do"] for line in lines] == ["close"]


def test_a_worker_that_does_not_close_is_ended_after_the_grace_time(start, monkeypatch):
    monkeypatch.setattr(process, "GRACE_S", 0.5)
    worker = start("never-closes")
    worker.await_ready()
    worker.end()
    assert processes_of(worker) == []


def test_processes_that_outlive_the_worker_are_ended_and_named(start, log):
    worker = start()
    worker.await_ready()
    worker.measure(cell_of("a", does="leak"), 0, EFFORT, log)
    worker.end()
    assert len(worker.leaked) == 1
    assert "sleep 3600" in worker.leaked[0]
    assert processes_of(worker) == []
    assert re.search(r"\b1 process.*\bsleep 3600\b", process.describe_leaks(worker.leaked))


def test_a_worker_closes_its_runner_and_ends_without_taking_its_interpreter_apart(
    start, log, tmp_path
):
    worker = start()
    worker.await_ready()
    worker.measure(cell_of("a", does="print"), 0, EFFORT, log)
    worker.end()
    lines = (tmp_path / "journal.jsonl").read_text().splitlines()
    done = [json.loads(line)["do"] for line in lines]
    assert done == ["measure", "close"]
    assert (tmp_path / "ended").exists()
    assert not (tmp_path / "taken-apart").exists()
    assert "a library that talks" in log.read_text()
    assert not worker.leaked


ENGINE = """
import os, sys
from pathlib import Path
from skymark.execute.process import WorkerKind, WorkerProcess
from skymark.model.record import Cell
from skymark.model.effort import Effort
here = Path(sys.argv[1])
cell = Cell(suite="s", scenario="S", variant="v", adapter="a", settings={"does": "hang"})
effort = Effort(
    name="e", min_rounds=1, max_rounds=1, target_relative_interval=1, cell_timeout_s=900
)
kind = WorkerKind(Path(sys.executable), "scripted:ScriptedRunner", here)
worker = WorkerProcess(kind, cell, here / "cell.log")
worker.await_ready()
print(worker.id, flush=True)
worker.measure(cell, 0, effort, here / "cell.log")
"""


def test_a_worker_does_not_outlive_an_engine_that_is_killed(tmp_path):
    engine = subprocess.Popen(
        [sys.executable, "-c", ENGINE, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    marker = engine.stdout.readline().strip()
    journal = tmp_path / "journal.jsonl"
    deadline = time.monotonic() + 60
    while not (journal.exists() and journal.read_text().endswith("\n")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    pid = json.loads(journal.read_text())["pid"]
    assert psutil.Process(pid).environ()["SKYMARK_WORKER"] == marker
    os.kill(engine.pid, signal.SIGKILL)
    engine.wait()
    engine.stdout.close()
    deadline = time.monotonic() + 60
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not psutil.pid_exists(pid)
