"""The runner: refusals, and what is handed on to `skymark run`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.runners import full_runner
from skymark.execute.planner import write_plan
from skymark.machine.facts import has_driver

ROOT = Path(__file__).parents[2]
ONE_CELL = ("--scenarios", "TAB-1", "--adapters", "numpy", "--effort", "check")


def read(*arguments):
    return full_runner.read(["--platform", "cpu", "--output", "out", *arguments])


def runner(directory: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SKYMARK_LOCK": str(directory / "machine.lock"), **variables}
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.runners.full_runner", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=300,
        check=False,
    )


def test_options_of_run_are_handed_on_as_they_were_given():
    options = ("--scenarios", "CV-1", "NLP-1", "--store", "s3://bucket/prefix", "--set", "a=1")
    assert read(*options).passed_on == options


@pytest.mark.parametrize("arguments", [(), ("--platform", "cpu"), ("--platform", "npu")])
def test_a_command_without_platform_or_place_ends_with_status_2(arguments):
    with pytest.raises(SystemExit) as ended:
        full_runner.read(arguments)
    assert ended.value.code == 2


def test_a_job_of_skypilot_has_a_directory_of_its_own_and_a_link_leads_to_the_newest(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    for job in ("sky-1", "sky-2"):
        monkeypatch.setenv("SKYPILOT_TASK_ID", job)
        request = full_runner.read(ONE_CELL)
        assert request.output == tmp_path / "results" / job
        full_runner.link_as_newest(request.output)
        assert request.platform is None
        assert request.passed_on == ONE_CELL
    assert (tmp_path / "results" / "latest").readlink() == Path("sky-2")
    assert full_runner.read(["--output", "out"]).output == Path("out")


def test_each_node_of_a_job_takes_its_part_unless_told_another(monkeypatch):
    monkeypatch.setenv("SKYPILOT_NUM_NODES", "2")
    monkeypatch.setenv("SKYPILOT_NODE_RANK", "1")
    assert read(*ONE_CELL).passed_on == (*ONE_CELL, "--shard", "1/2")
    assert read("--shard=0/3").passed_on == ("--shard=0/3",)
    assert read("--split", "longest").passed_on == ("--split", "longest")


def test_a_python_without_skymark_hands_over_to_that_of_the_set_up(tmp_path):
    made = tmp_path / "skymark-venv" / "bin" / "python"
    made.parent.mkdir(parents=True)
    made.write_text('#!/bin/sh\necho "$*"\n')
    made.chmod(0o755)
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-S", "-m", "benchmarks.runners.full_runner", *ONE_CELL],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        timeout=60,
        check=False,
    )
    assert done.stdout == f"-S -m benchmarks.runners.full_runner {' '.join(ONE_CELL)}\n"


def test_one_plan_always_gets_the_same_directory_and_another_plan_another():
    def directory(*options):
        request = full_runner.read(["--platform", "cpu", "--results", "there", *options])
        plan = full_runner.parsed(request.passed_on)[0]
        return full_runner.directory_of(request, plan)

    first = directory(*ONE_CELL)
    assert first.parent == Path("there")
    assert first.name.startswith("ci_cpu-")
    assert directory(*ONE_CELL, "--store", "file:///elsewhere") == first
    assert directory(*ONE_CELL, "--seed", "8") != first


def test_an_output_directory_is_taken_as_it_is():
    request = read("--results", "there")
    plan = full_runner.parsed(request.passed_on)[0]
    assert full_runner.directory_of(request, plan) == Path("out")


def test_a_directory_of_runs_as_output_gets_the_run_as_a_directory_of_its_own(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SKYPILOT_TASK_ID", "sky-1")
    monkeypatch.setenv("SKYMARK_LOCK", str(tmp_path / "machine.lock"))
    results = tmp_path / "results"
    for _ in ("before anything has run", "again, which finds the same run"):
        assert (
            full_runner.entry_point(["--output", f"{results}/", "--env", "current", *ONE_CELL]) == 0
        )
        (run,) = results.glob("ci_cpu-*")
        assert (results / "latest").resolve() == run
    other = ("--output", str(results), "--env", "current", *ONE_CELL, "--seed", "8")
    assert full_runner.entry_point(other) == 0
    newest = (results / "latest").resolve()
    assert newest != run
    assert not (results / "manifest.json").exists()
    elsewhere = full_runner.read(["--output", str(run), *ONE_CELL])
    assert full_runner.directory_of(elsewhere, full_runner.parsed(ONE_CELL)[0]) == run


def test_a_profile_for_gpus_is_refused_on_a_cpu(tmp_path):
    output = tmp_path / "out"
    done = runner(tmp_path, "--platform", "cpu", "--profile", "gpu_a100", "--output", str(output))
    assert done.returncode == 2
    assert re.search(" gpu_a100 .*--platform gpu", done.stderr)
    assert not output.exists()


@pytest.mark.parametrize(
    ("option", "said"),
    [("--scenarioes", "has no option --scenarioes"), ("--profile", "unknown profile 'CV-1'")],
)
def test_what_run_does_not_know_ends_with_status_2(tmp_path, option, said):
    place = ("--platform", "cpu", "--output", str(tmp_path / "out"))
    done = runner(tmp_path, *place, option, "CV-1")
    assert done.returncode == 2
    assert said in done.stdout + done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_without_an_accelerator_nothing_starts(tmp_path, platform):
    if has_driver(platform):
        pytest.skip(f"this machine has a {platform.upper()}")
    output = tmp_path / "out"
    done = runner(tmp_path, "--platform", platform, "--output", str(output), *ONE_CELL)
    assert done.returncode == 2
    assert f"no {platform.upper()} here" in done.stderr
    assert not output.exists()


def test_a_request_to_terminate_while_the_accelerator_is_asked_ends_with_130(tmp_path, monkeypatch):
    """Before `skymark run` begins nobody else listens."""
    (tmp_path / "jax.py").write_text("import time; open('started', 'w').close(); time.sleep(600)")
    (tmp_path / "root" / "dev").mkdir(parents=True)
    (tmp_path / "root" / "dev" / "nvidiactl").touch()
    root_with_driver = tmp_path / "root"
    before = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{before}")
    source = (
        "import sys; from pathlib import Path; from benchmarks.runners import "
        "full_runner as f; real = f.require_accelerator; f.require_accelerator = "
        f"lambda p, say, own: real(p, say, own=False, root=Path({str(root_with_driver)!r})); "
        f"sys.path.insert(0, {str(ROOT)!r}); "
        "sys.exit(f.entry_point(['--platform', 'gpu', '--output', 'out']))"
    )
    environment = {**os.environ}
    environment["PYTHONPATH"] = f"{environment['PYTHONPATH']}{os.pathsep}{ROOT}"
    process = subprocess.Popen([sys.executable, "-c", source], cwd=tmp_path, env=environment)
    try:
        while process.poll() is None and not (tmp_path / "started").exists():
            signal.sigtimedwait([], 0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 130
    finally:
        process.kill()
        process.wait()


def test_a_plan_s_file_is_run_as_it_is(tmp_path):
    made = full_runner.parsed(ONE_CELL)[0]
    write_plan(made, tmp_path / "plan.json")
    assert full_runner.parsed(("--plan", str(tmp_path / "plan.json")))[0].hash == made.hash
