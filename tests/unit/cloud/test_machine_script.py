"""The job of a machine, run here by a real bash: phases, time limit, plan, secrets, outcome."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from skymark.cloud.known_machines import write_secrets
from skymark.cloud.machine_script import (
    RESULTS,
    ROOM_BYTES,
    machine_variables,
    plan_file,
    script,
    secrets_file,
    taking_part,
)
from skymark.resources import resource_directory
from tests.rented_runs import run_of


@pytest.fixture
def run(tmp_path):
    def start(setup, command, limit_s=0, until_s=0):
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "SKYMARK_RUN_ID": "one",
            "SKYMARK_DEADLINE_S": str(limit_s),
            "SKYMARK_UNTIL_S": str(until_s),
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


def test_a_run_takes_its_part_as_a_node_of_several_does(run):
    shard = 'echo "${SKYPILOT_NODE_RANK:-0}/${SKYPILOT_NUM_NODES:-1}"'
    assert run(shard, taking_part(shard, 1, 4)) == (0, "0/1\n1/4\n", "run 0")


def test_a_failed_set_up_keeps_the_run_from_starting(run):
    assert run("set -e\nfalse\necho never", "echo never") == (1, "", "setup 1")


def test_a_machine_of_an_image_has_no_set_up(run):
    assert run(None, "echo 'it''s' \"$SKYMARK_RUN_ID\"") == (0, "its one\n", "run 0")


def test_the_status_of_a_failed_run_is_kept(run):
    assert run(None, "exit 7") == (1, "", "run 7")


@pytest.mark.parametrize(("deadline_s", "left_s"), [(0, 3600), (7200, 3600), (60, 60)])
def test_the_end_of_a_submission_limits_each_of_its_jobs(run, deadline_s, left_s):
    up_s = float(Path("/proc/uptime").read_text().split()[0])
    code, said, _ = run(None, "tr '\\0' ' ' < /proc/$PPID/cmdline", deadline_s, int(up_s) + 3600)
    assert code == 0
    limit_s = int(said.split("--kill-after=60 ")[1].split()[0])
    assert left_s - 60 < limit_s <= left_s


def test_a_job_that_begins_after_its_submission_s_end_is_over_at_once(run):
    assert run(None, "sleep 60", 0, 1)[2] == "run 124"


def test_a_run_whose_time_is_up_is_told_to_end(run):
    # timeout sends the signal twice: to the process and to its group.
    waits = """trap 'trap "" TERM; echo told; exit 0' TERM; sleep 60 & wait"""
    for limit_s in (2, 10, 60):  # on a busy machine it may be told before it listens
        ended = run(None, waits, limit_s=limit_s)
        assert ended[2] == "run 124"
        if ended[1]:
            break
    assert ended == (1, "told\n", "run 124")


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


def test_a_failed_set_up_takes_the_file_of_secrets_away_too(run, tmp_path):
    path = tmp_path / secrets_file("one")
    write_secrets(path, {"KEY": "secret"})
    assert run("exit 3", "echo never") == (1, "", "setup 3")
    assert not path.exists()


def test_the_set_up_counts_into_the_time(run):
    assert run("sleep 60", "echo never", limit_s=1) == (1, "", "setup 124")


@pytest.mark.parametrize("step_s", [120, 3600, -3600])
def test_a_clock_that_is_set_moves_no_deadline(tmp_path, step_s):
    """bash's SECONDS goes by the clock that somebody may set; here it steps at each command."""
    shows = "echo told $((SKYMARK_DEADLINE_S - $(cat ~/left)))"
    (tmp_path / "timeout").write_text('#!/bin/sh\necho "$3" > ~/left; shift 3; exec "$@"\n')
    (tmp_path / "timeout").chmod(0o755)
    done = subprocess.run(
        [
            "bash",
            "-c",
            f"trap 'SECONDS=$((SECONDS + {step_s}))' DEBUG\nset -T\n{script('sleep 2', shows)}",
        ],
        env={
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "SKYMARK_RUN_ID": "one",
            "SKYMARK_DEADLINE_S": "900",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    word, taken_s = done.stdout.split()
    assert word == "told"
    assert 2 <= int(taken_s) < 60


def test_room_is_kept_on_the_disk_until_the_run_has_ended(run, tmp_path):
    shows = f"du --bytes ~/{RESULTS}/one.room | cut -f 1"
    assert run(None, shows) == (0, f"{ROOM_BYTES}\n", "run 0")
    assert [path.name for path in (tmp_path / RESULTS).iterdir()] == ["one.outcome"]


def test_set_up_and_run_find_the_plan_that_was_sent(run, tmp_path):
    shows = 'echo "${SKYMARK_PLAN-none}"'
    assert run(shows, shows)[1] == "none\nnone\n"
    there = tmp_path / plan_file("one")
    there.write_text("{}")
    assert run(shows, shows)[1] == f"{there}\n{there}\n"


def sections(path):
    """The set-up and the run of a machine's YAML, which has no other text in blocks."""
    found, name = {}, ""
    for line in path.read_text().splitlines():
        if line.endswith(": |"):
            name = line.removesuffix(": |")
        elif line and not line.startswith(" "):
            name = ""
        elif name:
            found.setdefault(name, []).append(line[2:])
    return {name: "\n".join(lines) for name, lines in found.items()}


def arguments_of(section, tmp_path, variables):
    """What a section of a machine's YAML gives to the program that it runs last."""
    line = next(i for i, one in enumerate(section.split("\n")) if one.startswith("set --"))
    lines = section.split("\n")[line:]
    program = "\n".join(lines).replace("exec ", "").partition("~/skymark-venv/bin/skymark ")
    image = "\n".join(lines).partition("exec /opt/skymark/bin/python -m ")
    before, _, after = program if program[1] else image
    before = before.removesuffix("exec ")
    done = subprocess.run(
        ["bash", "-c", f"{before}printf '%s\\n' {after}"],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


YAMLS = sorted(resource_directory("sky").glob("*.yaml"))


@pytest.mark.parametrize("path", YAMLS, ids=lambda path: path.stem)
def test_a_machine_runs_the_plan_that_is_sent_and_else_its_profile(path, tmp_path):
    run = run_of(stores=("s3://bucket/one two", "wandb"))
    assert set(machine_variables(run)) >= {"SKYMARK_PROFILE", "SKYMARK_RUN_ID", "SKYMARK_STORES"}
    sent = {**machine_variables(run), "SKYMARK_PLAN": "/there/plan"}
    run = sections(path)["run"]
    words = arguments_of(run, tmp_path, sent)
    assert words[words.index("--plan") + 1] == "/there/plan"
    assert "--profile" not in words
    stores = [words[i + 1] for i, word in enumerate(words) if word == "--store"]
    assert stores == ["s3://bucket/one two", "wandb"]
    assert words[words.index("--split") + 1] == "balanced"
    assert words[words.index("--rank") + 1] == "0/1"
    alone = {"SKYMARK_PROFILE": "cpu", "SKYMARK_RUN_ID": "x", "SKYMARK_PLAN": ""}
    second = {"SKYMARK_SPLIT": "longest", "SKYPILOT_NODE_RANK": "1", "SKYPILOT_NUM_NODES": "3"}
    words = arguments_of(run, tmp_path, {**alone, "SKYMARK_STORES": "", **second})
    assert words[words.index("--split") :][:4] == ["--split", "longest", "--rank", "1/3"]
    assert words[words.index("--profile") + 1] == "cpu"
    assert not {"--plan", "--store"} & set(words)


@pytest.mark.parametrize("path", YAMLS, ids=lambda path: path.stem)
def test_a_set_up_makes_the_venvs_of_the_plan(path, tmp_path):
    if path.stem.endswith("-image"):
        assert "setup" not in sections(path), "an image has its venvs"
        return
    setup = sections(path)["setup"].replace(' || echo "going on without it"', "")
    sent = {"SKYMARK_PROFILE": "cpu", "SKYMARK_PLAN": "/there/plan"}
    assert arguments_of(setup, tmp_path, sent) == ["env", "build", "--plan", "/there/plan"]
    alone = {"SKYMARK_PROFILE": "cpu", "SKYMARK_PLAN": ""}
    assert arguments_of(setup, tmp_path, alone) == ["env", "build", "--profile", "cpu"]


@pytest.mark.parametrize("path", YAMLS, ids=lambda path: path.stem)
@pytest.mark.parametrize(("named", "run"), [("", "sky-job-1"), ("one", "one")])
def test_each_job_has_a_directory_of_its_own_and_a_link_leads_to_the_newest(
    path, named, run, tmp_path
):
    if not named and path.stem.startswith("cluster-"):
        assert not started(path, tmp_path, "").startswith("/")
        assert not (tmp_path / "results").exists()
        return
    assert started(path, tmp_path, named) == str(tmp_path / "results" / run)
    assert (tmp_path / "results" / "latest").readlink() == Path(run)


def started(path, home, named):
    """Return the directory that a YAML's run would be started in, or what it says instead."""
    before, _, after = sections(path)["run"].partition("\nexec ")
    output = after.partition("--output ")[2].partition(" ")[0]
    script = before.replace("cd /app", "")
    done = subprocess.run(
        ["bash", "-euc", f"{script}\necho {output}"],
        env={
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "SKYPILOT_TASK_ID": "sky-job-1",
            "SKYMARK_RUN_ID": named,
            "SKYMARK_PROFILE": "cpu",
            "SKYMARK_PLAN": "",
            "SKYMARK_STORES": "",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("path", YAMLS, ids=lambda path: path.stem)
def test_a_machine_s_yaml_declares_no_secret_which_would_win_over_env(path):
    assert "\nsecrets:" not in path.read_text()


@pytest.mark.parametrize("path", YAMLS, ids=lambda path: path.stem)
def test_a_machine_s_yaml_knows_no_suite(path):
    text = path.read_text()
    assert not {"SKYMARK_OPTIONS", "SKYMARK_ADAPTERS", "--scenarios", "eval "} & {
        word
        for word in ("SKYMARK_OPTIONS", "SKYMARK_ADAPTERS", "--scenarios", "eval ")
        if word in text
    }


FILES = [*YAMLS, *sorted((YAMLS[0].parents[1] / "docker").glob("Dockerfile.*"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_a_machine_installs_is_compared_with_hashes(path):
    """Installs go by a file of hashes, or are of what was sent and have no dependencies."""
    text = path.read_text().replace("\\\n", " ")
    installs = [line for line in text.splitlines() if "pip install" in line]
    loose = [one for one in installs if not {"--require-hashes", "--no-deps"} & set(one.split())]
    assert not loose
