"""Entries of every kind are listed and cleaned, and none that a live job has."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time

import pytest

from skymark.cache.building import build_once
from skymark.cache.entries import RUNS, clean, entries
from skymark.cache.sharing import claim_name, claims_beside, job_directory, using
from skymark.model.errors import UsageError

USE = """
import sys, time
from pathlib import Path
from skymark.cache.sharing import using
with using(Path(sys.argv[1])):
    print("uses", flush=True)
    time.sleep(600)
"""
KEY = "0123456789abcdef"


def entry(root, name):
    build_once(root / name, lambda part: (part / "file").write_text("12345"))
    return root / name


@pytest.fixture
def root(tmp_path):
    for name in (
        f"datasets/CV-1-{KEY}",
        f"datasets/CV-1-{KEY}--shared-parquet",
        f"clip/pixels/shapes-test-{KEY}-{KEY}",
        f"venvs/numpy-{KEY[:12]}",
        f"prepared/rows-{KEY}",
    ):
        entry(tmp_path, name)
    return tmp_path


def names(done):
    return {one.name: one.kept for one in done}


def test_every_kind_is_listed_with_what_it_is(root):
    found = {one.name: one for one in entries(root)}
    assert {one.kind for one in found.values()} == {"data set", "pixel map", "venv", "prepared"}
    data = found[f"datasets/CV-1-{KEY}"]
    assert (data.data_set, data.fingerprint, data.size_bytes) == ("CV-1", KEY, 5)
    assert data.owner == (root / "datasets").owner()
    assert data.lease is None
    assert abs(data.last_used.timestamp() - time.time()) < 60
    assert found[f"datasets/CV-1-{KEY}--shared-parquet"].data_set == "CV-1--shared-parquet"


def test_all_is_cleaned_where_nobody_is(root):
    assert set(names(clean(root)).values()) == {None}
    assert list(entries(root)) == []


def test_what_a_live_process_uses_stays_until_it_is_killed(root):
    used = root / f"prepared/rows-{KEY}"
    command = [sys.executable, "-c", USE, os.fspath(used)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout.readline() == "uses\n"
        kept = names(clean(root, [f"prepared/rows-{KEY}"]))
        assert f"process {user.pid} on" in kept[f"prepared/rows-{KEY}"]
        assert used.exists()
        user.kill()
    assert names(clean(root, [f"prepared/rows-{KEY}"])) == {f"prepared/rows-{KEY}": None}


def test_a_run_keeps_what_skymark_made_for_itself_and_nothing_else(root):
    with using(root / RUNS):
        done = names(clean(root))
    kept = {name for name, why in done.items() if why}
    assert kept == {name for name in done if not name.startswith("prepared/")}


def test_a_job_s_own_directory_goes_with_its_job_alone(root):
    with job_directory(root, {"SLURM_JOB_ID": "7"}, lambda _: None) as directory:
        (listed,) = (one for one in entries(root) if one.kind == "job")
        assert f"process {os.getpid()}" in listed.lease
        assert "jobs/7" not in names(clean(root))
        assert directory.exists()


def test_what_is_being_built_is_left_and_what_a_dead_builder_left_goes(root):
    part = root / "prepared" / ".next-0123.ab.part"
    part.mkdir()
    lease = claims_beside(root / "prepared" / "x").take(claim_name(root / "prepared" / "next-0123"))
    list(clean(root, kinds=["venv"]))
    assert part.exists()
    lease.release()
    list(clean(root, kinds=["venv"]))
    assert not part.exists()


def test_who_comes_while_an_entry_is_removed_waits_and_finds_it_gone(root):
    used = root / f"prepared/rows-{KEY}"
    lease = claims_beside(used).take(claim_name(used))
    command = [sys.executable, "-c", USE, os.fspath(used)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        assert select.select([waiting.stdout], [], [], 1.5) == ([], [], [])
        lease.release()
        assert waiting.stdout.readline() == "uses\n"
        waiting.kill()


def test_a_choice_by_kind_age_and_name(root):
    assert set(names(clean(root, kinds=["venv"], dry=True))) == {f"venvs/numpy-{KEY[:12]}"}
    assert names(clean(root, unused_days=1)) == {}
    old_s = time.time() - 3 * 86400
    os.utime(root / f"venvs/numpy-{KEY[:12]}", (old_s, old_s))
    assert set(names(clean(root, unused_days=1))) == {f"venvs/numpy-{KEY[:12]}"}
    with pytest.raises(UsageError, match="venvs/none"):
        list(clean(root, ["venvs/none"]))
