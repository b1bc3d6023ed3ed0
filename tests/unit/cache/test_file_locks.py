"""Caches on file systems that refuse locks: used, or refused at once with the policy that works.

`tests/functional/test_cache_libraries.py` has the real library, with a stand-in for flock(2).
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest

from skymark.cache.location import Policy
from skymark.cache.providing import build_prepared, provided
from skymark.cache.recipe import recipe_of
from skymark.cache.sharing import refused_locks, unlocked
from skymark.cli.main import main
from skymark.machine.measuring_lock import LOCK_VARIABLE, measuring
from skymark.model.errors import CacheError, RunDirectoryError, UsageError
from skymark.rundir.writer_locks import joint_writer

ERRORS = [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP]
WORK = [Policy.SHARED, Policy.PREBUILT, Policy.PARQUET, Policy.PARQUET_SHARED]


@pytest.fixture(params=ERRORS, ids=errno.errorcode.get)
def root(request, tmp_path, monkeypatch):
    """A directory whose file system answers every lock with an error; all others have locks."""
    root, real = tmp_path / "root", fcntl.flock
    root.mkdir()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))

    def flock(file, operation):
        number = file if isinstance(file, int) else file.fileno()
        if Path(f"/proc/self/fd/{number}").readlink().is_relative_to(root):
            raise OSError(request.param, os.strerror(request.param))
        return real(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    return root


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text("".join(f'{{"a": {n}}}\n' for n in range(200)))
    return path


def recipe(source):
    fill = "import os, pathlib; pathlib.Path(os.environ['HF_DATASETS_CACHE'], 'x').touch()"
    return recipe_of((str(source),), prepare=(sys.executable, "-c", fill))


@pytest.mark.parametrize("policy", [Policy.SHARED, Policy.PREBUILT, Policy.PARQUET])
def test_a_job_reads_a_cache_there_and_locks_on_its_own_machine(root, source, policy):
    told = []
    one = recipe(source)
    if policy is Policy.PARQUET:
        one = one.model_copy(update={"prepare": ()})
    if policy is Policy.PREBUILT:
        build_prepared(root, one, sealed=True)
    with provided(policy, one, root, {}, told.append) as variables:
        place = Path(variables["HF_DATASETS_CACHE"])
        assert refused_locks(place) is None
        assert not place.is_relative_to(root)
        assert (place / "x").exists() or policy is Policy.PARQUET
    assert not place.exists()
    assert any("refuses locks" in text for text in told)


@pytest.mark.parametrize("policy", ["per-job", "staggered"])
def test_a_policy_that_locks_there_is_refused_at_once_with_those_that_work(
    root, policy, capsys, tmp_path
):
    begin = time.monotonic()
    command = ["cache", "use", "--cache-policy", policy, "--cache-root", str(root)]
    assert main([*command, "--", "touch", str(tmp_path / "ran")]) == 1
    assert time.monotonic() - begin < 30
    said = " ".join(capsys.readouterr().err.split())
    assert all(one in said for one in map(str, WORK))
    assert not (tmp_path / "ran").exists()


def test_tar_shards_need_no_locks(root, capsys, tmp_path):
    (tmp_path / "0.tar").write_bytes(b"")
    command = ["cache", "use", "--cache-policy", "per-job", "--cache-root", str(root)]
    assert main([*command, "--data", str(tmp_path / "0.tar"), "--", "true"]) == 0


def test_a_choice_that_is_left_to_skymark_is_one_that_works(root, source, tmp_path, capsys):
    fill = f"{sys.executable} -c pass"
    command = ["cache", "use", "--cache-root", str(root), "--data", str(source)]
    assert main([*command, "--prepare", fill, "--", "true"]) == 0
    assert "refuses locks" in (said := " ".join(capsys.readouterr().err.split()))
    assert "cache is shared" in said


def test_runs_are_refused_a_directory_without_locks(root, capsys, tmp_path):
    run = ["run", "--scenarios", "TAB-1:tiny", "--adapters", "numpy", "--effort", "check"]
    caches = ["--cache-policy", "per-job", "--cache-root", str(root)]
    assert main([*run, *caches, "--output", str(tmp_path / "out")]) == 1
    assert "refuses locks" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_nothing_is_left_of_the_locks_that_are_let_succeed(root):
    with (root / "lock").open("w") as file:
        with unlocked(root):
            fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)


def test_a_shared_run_and_the_lock_of_the_machine_name_the_fault(root, monkeypatch):
    with pytest.raises(RunDirectoryError, match="refuses locks"), joint_writer(root / "run"):
        pass
    monkeypatch.setenv(LOCK_VARIABLE, str(root / "lock"))
    with pytest.raises(UsageError, match=f"{root / 'lock'}.*{LOCK_VARIABLE}"), measuring():
        pass


def test_a_build_that_takes_too_long_is_ended_and_says_what_to_do(tmp_path, source, capsys):
    seen = tmp_path / "seen"
    script = f"import pathlib, time; pathlib.Path({str(seen)!r}).touch(); time.sleep(600)"
    fill = f"{sys.executable} -c {json.dumps(script)}"
    command = ["cache", "build", "--cache-policy", "shared", "--cache-root", str(tmp_path / "r")]
    for limit in ("1s", "10s", "60s"):  # on a busy machine it begins late
        assert main([*command, "--prepare", fill, "--build-limit", limit]) == 1
        assert "--build-limit" in capsys.readouterr().err
        if seen.exists():
            break
    assert seen.exists()


def test_a_limit_that_is_none_is_refused(tmp_path, capsys):
    command = ["cache", "build", "--prepare", "true", "--cache-root", str(tmp_path)]
    assert main([*command, "--build-limit", "20"]) == 2
    assert "--build-limit '20'" in capsys.readouterr().err


def test_the_error_of_an_unwritable_root_is_another_fault(tmp_path):
    (tmp_path / "file").touch()
    assert refused_locks(tmp_path / "file" / "root") is None
    with (
        pytest.raises((CacheError, OSError)),
        provided(Policy.PER_JOB, None, tmp_path / "file" / "root", {}),
    ):
        pass
