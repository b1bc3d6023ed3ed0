"""`skymark cache`: what is asked is done, said, and exits as it should."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys

import pytest

from skymark.cli.caller import end_when_told
from skymark.cli.main import main
from skymark.cli.options import PlanOptions
from skymark.execute.run_caches import caches_of_run as _caches_of_run
from skymark.machine.children import worker_variables

PLAN = PlanOptions(scenarios=("TAB-1",), adapters=("numpy",)).plan()
ROWS = "\n".join(json.dumps({"a": n}) for n in range(500))


def caches_of_run(*asked):
    """Announce on standard error, as the command does."""
    return _caches_of_run(*asked, announce=lambda text: print(text, file=sys.stderr))


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(ROWS)
    return path


@pytest.fixture
def skymark(tmp_path, capfd, monkeypatch):
    """Call `skymark cache` with a root of the test's own; returns status, output and messages."""
    for name in ("SLURM_JOB_ID", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)

    def call(word, *arguments):
        root = ("--cache-root", str(tmp_path / "root"))
        status = main(["cache", word, *root, *map(str, arguments)])
        out, err = capfd.readouterr()
        return status, out, err

    return call


def test_plan_says_what_fits_and_shows_the_other_rows(skymark, source):
    status, out, err = skymark("plan", source, "--jobs", "64")
    assert status == 0
    assert out.startswith("per-job: ")
    for policy in ("shared", "prebuilt", "parquet", "parquet+shared", "staggered"):
        assert f"\n{policy} " in out
    assert "--measure" in err
    status, out, _ = skymark("plan", source, "--jobs", "64", "--json")
    choice = json.loads(out)
    assert (choice["policy"], choice["case"]["size_bytes"]) == ("per-job", source.stat().st_size)


def test_plan_measures_and_explains(skymark, source):
    status, out, err = skymark("plan", source, "--measure", "--explain")
    assert status == 0
    assert "build_bytes_per_s" in out
    assert "--measure" not in err


def test_build_converts_and_prints_before_and_after(skymark, source):
    status, out, _ = skymark("build", source, "--cache-policy", "parquet", "--shards", "2")
    assert status == 0
    assert f"load_dataset('json', data_files={{'train': ['{source}']}})" in out
    assert "after:  2 files" in out
    assert "streaming=True" in out
    _, out, _ = skymark("list", "--json")
    (entry,) = json.loads(out)
    assert (entry["kind"], entry["data_set"], entry["sealed"]) == ("converted", "rows", True)
    assert skymark("verify")[0] == 0
    _, out, _ = skymark("du", "--json")
    assert json.loads(out)["kinds"][0]["size_bytes"] == entry["size_bytes"]
    assert "converted" in skymark("du")[1]
    assert entry["name"] in skymark("list")[1]
    assert "would remove" in skymark("clean", "--dry-run")[1]
    assert f"removed {entry['name']}" in skymark("clean")[1]
    assert json.loads(skymark("list", "--json")[1]) == []


def test_verify_explains_what_is_wrong_and_exits_with_one(skymark, source, tmp_path):
    skymark("build", source, "--cache-policy", "parquet")
    (file, *_) = (tmp_path / "root").rglob("*.parquet")
    file.chmod(0o644)
    file.write_bytes(b"")
    status, out, err = skymark("verify")
    assert status == 1
    assert out.startswith(f"Can't read {file.name}\n")
    assert "cause: " in out
    assert "do: " in out
    assert "1 fault found" in err
    assert json.loads(skymark("verify", "--json")[1])[0]["message"] == f"Can't read {file.name}"
    assert skymark("verify", tmp_path / "none")[0] == 2


def test_use_gives_the_job_its_variables_and_its_exit_status(skymark, source, tmp_path):
    script = "import os, sys; print(os.environ['HF_DATASETS_CACHE']); sys.exit(7)"
    status, out, err = skymark(
        "use", "--cache-policy", "per-job", "--", sys.executable, "-c", script
    )
    assert status == 7
    assert out.startswith(str(tmp_path / "root" / "jobs"))
    assert "policy per-job: " in err
    assert list((tmp_path / "root" / "jobs").glob("[!.]*")) == []


def test_use_staggers_by_the_place_in_an_array_whose_numbers_begin_anywhere(skymark, monkeypatch):
    array = {"MIN": 1000, "MAX": 1063, "COUNT": 64, "STEP": 1, "ID": 1002}
    for name, value in array.items():
        monkeypatch.setenv(f"SLURM_ARRAY_TASK_{name}", str(value))
    words = ("use", "--cache-policy", "staggered", "--stagger", "0.01", "--", "true")
    status, _, err = skymark(*words)
    assert status == 0
    assert re.search(r"0\.02 s\b.*\b2 jobs", err)


def test_use_chooses_and_says_why(skymark, source, tmp_path):
    status, _, err = skymark("use", "--data", source, "--", sys.executable, "-c", "")
    assert status == 0
    assert re.search(r"auto: per-job \(.*--jobs", err)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("use",), "-- python train.py"),
        (("use", "--cache-policy", "shared", "--", "true"), "with --prepare"),
        (("build",), "with --prepare"),
        (("build", "a.json", "--to", "arrow"), "--to and --shards need"),
        (
            ("build", "a.json", "--to", "arrow", "--cache-policy", "parquet+shared"),
            "--to arrow needs --cache-policy parquet, and has no --shards",
        ),
        (("clean", "--kind", "veenv"), "'venv'"),
        (("clean", "venvs/none"), "no venvs/none"),
    ],
)
def test_what_makes_no_sense_is_refused(skymark, arguments, message):
    word, *rest = arguments
    status, _, err = skymark(word, *rest)
    assert status == 2
    assert message in " ".join(err.split())


def test_a_command_that_is_not_there_is_told(skymark):
    status, _, err = skymark("use", "--cache-policy", "per-job", "--", "no-such-command")
    assert status == 127
    assert f"no-such-command: {os.strerror(errno.ENOENT)}" in err


def test_a_killed_command_tells_its_signal(skymark):
    script = "import os; os.kill(os.getpid(), 9)"
    words = ("use", "--cache-policy", "per-job", "--", sys.executable, "-c", script)
    assert skymark(*words)[0] == 137


def test_a_command_that_was_just_started_ends_with_a_skymark_that_is_told_to_stop(
    skymark, tmp_path, monkeypatch
):
    started = []

    class ToldMeanwhile(subprocess.Popen):
        def __init__(self, *arguments, **more):
            super().__init__(*arguments, **more)
            started.append(self)
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("skymark.cli.cache.subprocess.Popen", ToldMeanwhile)
    before = signal.getsignal(signal.SIGTERM)
    end_when_told()
    try:
        with pytest.raises(SystemExit) as ended:
            skymark("use", "--", "sleep", "600")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == 130
    assert started[0].returncode == -signal.SIGTERM
    assert not list((tmp_path / "root" / "jobs").glob("here-*"))


def test_a_root_goes_with_a_policy(capfd, tmp_path):
    assert main(["run", "--cache-root", str(tmp_path)]) == 2
    assert re.search("--cache-root .*--cache-policy", capfd.readouterr().err)


def test_a_run_sends_its_libraries_to_a_directory_of_its_own_and_back(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("HF_HUB_CACHE", "/before")
    monkeypatch.delenv("HF_DATASETS_CACHE", raising=False)
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    with caches_of_run("per-job", tmp_path, PLAN) as told:
        assert told.startswith(f"per-job: {tmp_path / 'jobs' / '4711'}")
        assert os.environ["HF_HUB_CACHE"].startswith(str(tmp_path))
        assert worker_variables()["HF_DATASETS_CACHE"].startswith(str(tmp_path))
        assert "WDS_CACHE" not in worker_variables()
    assert os.environ["HF_HUB_CACHE"] == "/before"
    assert "HF_DATASETS_CACHE" not in os.environ
    assert list((tmp_path / "jobs").glob("[!.]*")) == []
    with caches_of_run("shared", tmp_path, PLAN) as told:
        assert told == f"shared: {tmp_path / 'shared'}"
    with caches_of_run("auto", tmp_path, PLAN) as told:
        assert told.startswith("per-job: ")
    with caches_of_run(None, None, PLAN) as told:
        assert told is None
    assert re.search("auto: per-job .*--data", capfd.readouterr().err)
