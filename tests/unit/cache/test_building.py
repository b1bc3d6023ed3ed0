"""An entry is built once, privately, and is whole for all who see it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from skymark.cache import building
from skymark.cache.building import build_once, remove, sweep_parts
from skymark.cache.sharing import claim_name, claims_beside
from skymark.model.errors import CacheError, StorageFullError
from tests.faults.disks import modes_hold

BUILD = """
import sys, time
from pathlib import Path
from skymark.cache.building import build_once

def make(part):
    (part / "first").write_text("half")
    print("began", flush=True)
    time.sleep(float(sys.argv[2]))
    (part / "second").write_text("whole")

print("built" if build_once(Path(sys.argv[1]), make) else "found", flush=True)
"""


def write(text):
    return lambda part: (part / "file").write_text(text)


def process(entry, seconds):
    command = [sys.executable, "-c", BUILD, os.fspath(entry), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_an_entry_is_built_once_and_left_alone_after(tmp_path):
    entry = tmp_path / "kind" / "entry"
    assert build_once(entry, write("one"))
    assert not build_once(entry, write("two"))
    assert (entry / "file").read_text() == "one"
    assert list(entry.parent.glob(".entry*")) == []


def test_of_many_that_come_at_once_one_builds_and_nobody_sees_half(tmp_path):
    entry, seen, built = tmp_path / "entry", [], []

    def make(part):
        (part / "first").touch()
        time.sleep(0.3)
        (part / "second").touch()

    def need():
        built.append(build_once(entry, make))
        seen.append(sorted(path.name for path in entry.iterdir()))

    threads = [threading.Thread(target=need) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sum(built) == 1
    assert seen == [["first", "second"]] * 8


def test_a_builder_that_was_killed_is_noticed_and_its_work_is_done_again(tmp_path):
    entry = tmp_path / "entry"
    with process(entry, 600) as builder:
        assert builder.stdout.readline() == "began\n"
        with process(entry, 0) as waiting:
            time.sleep(0.5)
            assert waiting.poll() is None
            assert not entry.exists()
            builder.kill()
            assert waiting.stdout.read() == "began\nbuilt\n"
    assert sorted(path.name for path in entry.iterdir()) == ["first", "second"]
    assert list(tmp_path.glob(".entry*")) == []


def test_a_build_that_fails_leaves_nothing_and_the_next_may_try(tmp_path):
    def fail(part):
        (part / "half").touch()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        build_once(tmp_path / "entry", fail)
    assert not (tmp_path / "entry").exists()
    assert build_once(tmp_path / "entry", write("well"))


def test_what_is_not_whole_is_not_put_in_its_place(tmp_path):
    def is_whole(entry):
        return (entry / "marker").exists()

    with pytest.raises(CacheError, match="is incomplete"):
        build_once(tmp_path / "entry", write("x"), is_whole=is_whole)
    assert not (tmp_path / "entry").exists()


def test_an_entry_that_is_not_whole_is_replaced(tmp_path):
    entry = tmp_path / "entry"
    (entry / "old").mkdir(parents=True)

    def is_whole(place):
        return (place / "file").exists()

    assert build_once(entry, write("new"), is_whole=is_whole)
    assert [path.name for path in entry.iterdir()] == ["file"]


def test_who_was_replaced_while_it_stood_still_puts_nothing_in_the_place(tmp_path):
    entry = tmp_path / "entry"
    leases = claims_beside(entry)

    def replaced(part):
        (part / "file").write_text("slow")
        foreign = leases.directory / f"{claim_name(entry)}.2"
        foreign.write_text("{}")
        entry.mkdir()
        (entry / "file").write_text("quick")

    assert not build_once(entry, replaced)
    assert (entry / "file").read_text() == "quick"


def test_a_disk_without_room_is_told_before_anything_is_made(tmp_path, monkeypatch):
    made = []
    with pytest.raises(StorageFullError, match=r" 1050 TB.*cache clean"):
        build_once(tmp_path / "entry", made.append, needed_bytes=10**15)
    assert made == []


def test_the_group_may_read_what_a_user_with_a_narrow_umask_built(tmp_path):
    def make(part):
        (part / "folder").mkdir()
        (part / "folder" / "file").write_text("x")
        (part / "program").touch(mode=0o700)

    old = os.umask(0o077)
    try:
        build_once(tmp_path / "entry", make)
    finally:
        os.umask(old)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "entry").rglob("*")}
    assert modes == {"folder": 0o750, "file": 0o640, "program": 0o750}
    assert stat.S_IMODE((tmp_path / "entry").stat().st_mode) & 0o050 == 0o050


def test_folders_of_a_group_s_cache_are_the_group_s_too(tmp_path):
    tmp_path.chmod(0o2770)
    old = os.umask(0o077)
    try:
        build_once(tmp_path / "kind" / "entry", write("x"))
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "kind").stat().st_mode) == 0o2770
    assert stat.S_IMODE((tmp_path / "kind" / ".leases").stat().st_mode) == 0o2770


def test_who_may_not_write_is_told_whose_it_is_and_what_to_do(tmp_path):
    tmp_path.chmod(0o555)
    try:
        done = subprocess.run(
            [*modes_hold(), sys.executable, "-c", BUILD, os.fspath(tmp_path / "a" / "entry"), "0"],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        tmp_path.chmod(0o755)
    assert "permission denied" in done.stderr
    assert "--cache-root" in done.stderr


def test_an_entry_goes_from_its_place_before_it_is_removed(tmp_path, monkeypatch):
    entry = tmp_path / "entry"
    build_once(entry, write("x"))
    entry.chmod(0o555)
    seen = []
    real = shutil.rmtree
    monkeypatch.setattr(
        building.shutil, "rmtree", lambda path: (seen.append(entry.exists()), real(path))
    )
    remove(entry)
    assert seen == [False]
    assert [path.name for path in tmp_path.iterdir()] == [".leases"]


def test_what_a_dead_builder_had_started_writes_nowhere_while_its_work_is_swept(
    tmp_path, monkeypatch
):
    entry, part = tmp_path / "entry", tmp_path / ".entry.0a1b2c3d.part"
    part.mkdir()
    (part / "half").write_text("of it")

    def writing_beside(directory, ignore_errors=False):
        (directory / "half").unlink()
        with suppress(FileNotFoundError):
            (part / "more").write_text("of it")
        with suppress(OSError):
            directory.rmdir()

    monkeypatch.setattr(shutil, "rmtree", writing_beside)
    sweep_parts(entry)
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_goes_by_itself_is_no_trouble(tmp_path, monkeypatch):
    part = tmp_path / ".entry.0a1b2c3d.part"
    monkeypatch.setattr(Path, "glob", lambda *_: iter([part]))
    sweep_parts(tmp_path / "entry")
    assert list(tmp_path.iterdir()) == []
