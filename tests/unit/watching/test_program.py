"""Programs under watch behave as without: status, output, random numbers, order, signals, hooks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import skymark
from skymark.cli.main import main
from skymark.watching.program import copy_package, watch_program
from skymark.watching.verdict import LoopVerdict

LOOP = """
import random, sys, time
from skymark.watching import watch
random.seed(7)
def slow():
    for number in range({batches}):
        time.sleep(0.003)
        yield number, random.random()
taken = []
for epoch in range(2):
    for batch in watch(slow()) if {watched} else slow():
        taken.append(batch)
print(taken)
sys.exit({status})
"""


def run(*arguments: str, cwd: Path | None = None, **variables: str):
    """`skymark watch` as a process."""
    return subprocess.run(
        [sys.executable, "-m", "skymark", "watch", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **variables},
        check=False,
    )


@pytest.fixture
def program(tmp_path):
    """A program with a loop, without a watch and with one."""
    for name, watched in (("plain", False), ("watched", True)):
        text = LOOP.format(batches=20, status=3, watched=watched)
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def test_output_status_random_numbers_and_order_stay_and_the_verdict_follows(program):
    plain = subprocess.run(
        [sys.executable, program / "plain.py"], capture_output=True, text=True, check=False
    )
    watched = run("--", sys.executable, str(program / "watched.py"))
    assert watched.stdout == plain.stdout
    assert watched.returncode == plain.returncode == 3
    assert "watched.py" in watched.stderr
    assert plain.stderr == ""


def test_the_last_line_of_the_output_is_the_verdict_as_json(program):
    watched = run("--json", "--", sys.executable, str(program / "watched.py"))
    verdict = json.loads(watched.stdout.splitlines()[-1])
    assert verdict["facts"]["batches"] == 40
    assert verdict["facts"]["epochs"] == 2
    assert 0 < verdict["waiting"] <= 1
    assert watched.stderr == ""


def test_one_line_in_a_program_gives_the_verdict_to_the_program(capsys):
    loader = skymark.watch([1, 2, 3])
    assert list(loader) == [1, 2, 3]
    assert len(loader) == 3
    assert isinstance(loader.verdict, LoopVerdict)
    assert loader.verdict.facts.batches == 3
    assert loader.verdict.sentence in capsys.readouterr().err


def test_a_loop_that_is_left_early_has_a_verdict(capsys):
    loader = skymark.watch(range(100))
    for number in loader:
        if number == 4:
            break
    assert loader.verdict.facts.batches == 5
    assert capsys.readouterr().err


def test_attributes_of_the_loader_are_there():
    class Loader(list):
        def set_epoch(self, epoch: int) -> int:
            return epoch + 1

    assert skymark.watch(Loader([1])).set_epoch(1) == 2
    with pytest.raises(AttributeError):
        skymark.watch(Loader()).no_such_method  # noqa: B018


def test_a_program_without_a_loop_or_without_python_runs_as_it_is_with_one_line_about_it():
    for command in ([sys.executable, "-c", "print(1)"], ["sh", "-c", "echo 1"]):
        watched = run("--", *command)
        assert (watched.returncode, watched.stdout) == (0, "1\n")
        assert len(watched.stderr.splitlines()) == 1


@pytest.mark.parametrize(("mode", "status"), [(None, 127), (0o600, 126)])
def test_a_program_that_cannot_be_started_has_the_shell_s_status(tmp_path, mode, status):
    path = tmp_path / "program"
    if mode is not None:
        path.write_text("")
        path.chmod(mode)
    watched = run("--", str(path))
    assert watched.returncode == status
    assert str(path) in watched.stderr


def test_a_program_that_a_signal_ends_has_the_shell_s_status():
    watched = run("--", "sh", "-c", "kill -TERM $$")
    assert watched.returncode == 128 + signal.SIGTERM


def test_ctrl_c_ends_the_program_which_decides_its_status_and_the_verdict_follows(tmp_path):
    (tmp_path / "loop.py").write_text(
        LOOP.format(batches=100_000, status=0, watched=True).replace(
            "taken.append(batch)",
            "taken.append(batch) or (len(taken) == 30 and print('begun', flush=True))",
        )
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "skymark", "watch", "--", sys.executable, tmp_path / "loop.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "begun\n"
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert "loop.py" in told


def test_a_program_s_own_sitecustomize_and_module_path_stay(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.theirs = 5\n")
    shown = "import sys, sitecustomize; print(theirs, sitecustomize.__file__, sys.path)"
    command = [sys.executable, "-c", shown]
    plain = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run("--", *command, PYTHONPATH=str(tmp_path)).stdout == plain.stdout


def test_the_watch_ends_after_as_many_batches_as_were_asked_for_and_the_program_goes_on(program):
    watched = run("--batches", "7", "--json", "--", sys.executable, str(program / "watched.py"))
    lines = watched.stdout.splitlines()
    (verdict,) = (line for line in lines if line.startswith("{"))
    (taken,) = (line for line in lines if line.startswith("["))
    assert json.loads(verdict)["facts"]["batches"] == 7
    assert taken.count("(") == 40
    assert watched.returncode == 3


def test_a_trace_has_each_wait_and_step(program, tmp_path):
    trace = tmp_path / "trace.json"
    run("--trace", str(trace), "--", sys.executable, str(program / "watched.py"))
    events = json.loads(trace.read_text())["traceEvents"]
    names = [event["name"] for event in events if event["ph"] == "X"]
    assert names.count("wait") == 2 * (20 + 1)  # the end of an epoch is asked for, too
    assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")


def test_the_page_has_the_verdict_and_a_mark_for_each_wait(program, tmp_path):
    output = tmp_path / "new" / "verdict"
    run("--output", str(output), "--", sys.executable, str(program / "watched.py"))
    verdict = json.loads((output / "verdict.json").read_text())
    page = (output / "verdict.html").read_text()
    assert verdict["sentence"].split(":")[0] in page
    assert page.count("<line") == 2 * (20 + 1)


def test_ranks_have_one_verdict(program, tmp_path):
    script = tmp_path / "ranks.sh"
    script.write_text(
        f'for rank in 0 1; do RANK=$rank WORLD_SIZE=2 "{sys.executable}" '
        f'"{program / "watched.py"}" >/dev/null & done; wait'
    )
    verdict = json.loads(run("--json", "--", "sh", str(script)).stdout)
    assert [rank["rank"] for rank in verdict["ranks"]] == [0, 1]


def test_the_command_refuses_what_it_cannot_do(capsys, tmp_path):
    assert main(["watch"]) == 2
    assert main(["watch", "--copy", str(tmp_path / "copy"), "--", "true"]) == 2
    assert not (tmp_path / "copy").exists()
    assert "watch" in capsys.readouterr().err


def test_a_fork_is_without_the_thread_that_looks_at_stacks(tmp_path):
    shown = f"""
import os, threading, warnings
warnings.simplefilter("error")
from skymark.watching.recorder import start
watch = start({str(tmp_path)!r})
watch.wake()
assert threading.active_count() == 1
child = os.fork()
if child == 0:
    os._exit(len(os.listdir("/proc/self/task")))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
print(len(os.listdir("/proc/self/task")))
"""
    done = subprocess.run(
        [sys.executable, "-c", shown], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("2\n", "")


def starts(python: str) -> bool:
    """Whether an interpreter is there; a shim of pyenv may stand for none."""
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def interpreter(version: str) -> str | None:
    """The interpreter of a version, if there is one."""
    places = [*Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    places += filter(None, [shutil.which(f"python{version}")])
    return next(filter(starts, map(str, places)), None)


VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
INTERPRETERS = {version: path for version in VERSIONS if (path := interpreter(version))}
"""The interpreters of this machine by their versions."""


@pytest.mark.parametrize("version", INTERPRETERS)
def test_each_python_here_runs_the_copied_watch_and_is_watched(version, program, tmp_path):
    copy_package(str(tmp_path / "copy"))
    outcome = []
    python = INTERPRETERS[version]
    watch_program([python, str(program / "watched.py")], tell=outcome.append)
    (watched,) = outcome
    assert watched.status == 3
    assert watched.verdict.facts.batches == 40
    alone = subprocess.run(
        [python, str(program / "watched.py")],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "copy")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert alone.returncode == 3
    assert "watched.py" in alone.stderr
