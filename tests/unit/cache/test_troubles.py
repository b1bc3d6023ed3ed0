"""What libraries complain of is reproduced, and explained by its cause."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys

import pyarrow as pa
import pytest

from skymark.cache.building import build_once
from skymark.cache.entries import FULL, UNREADABLE, troubles
from skymark.model.errors import StorageFullError
from tests.faults.disks import modes_hold, small_disk

READ = "import pyarrow as pa, sys; pa.ipc.open_stream(pa.memory_map(sys.argv[1])).read_all()"
EXPLAIN = """
import sys
from pathlib import Path
from skymark.cache.entries import troubles
for one in troubles(Path(sys.argv[1])):
    print(one.message, "|", one.cause, "|", one.action)
"""


@pytest.fixture
def library_cache(tmp_path):
    """A cache as `datasets` makes it."""
    place = tmp_path / "json" / "default-1" / "0.0.0" / "hash"
    place.mkdir(parents=True)
    table = pa.table({"a": list(range(10_000))})
    with (
        pa.OSFile(str(place / "json-train.arrow"), "wb") as file,
        pa.ipc.new_stream(file, table.schema) as writer,
    ):
        for batch in table.to_batches(1000):
            writer.write_batch(batch)
    splits = {"train": {"num_bytes": table.nbytes, "num_examples": 10_000}}
    (place / "dataset_info.json").write_text(json.dumps({"splits": splits}))
    return tmp_path


def arrow_of(cache):
    return next(cache.rglob("json-train.arrow"))


def test_a_sound_cache_has_no_trouble(library_cache):
    assert list(troubles(library_cache)) == []


@pytest.mark.parametrize("keep", [0, 3, 40_000])
def test_cant_read_json_train_arrow_is_a_file_that_was_cut_off(library_cache, keep):
    arrow = arrow_of(library_cache)
    arrow.write_bytes(arrow.read_bytes()[:keep])
    done = subprocess.run([sys.executable, "-c", READ, str(arrow)], check=False, stderr=-1)
    assert done.returncode != 0, "the library could read it"
    (found,) = troubles(library_cache)
    assert found.message == UNREADABLE.format("json-train.arrow")
    assert "another process" in found.cause
    assert "--cache-policy shared" in found.action


def test_a_file_whose_end_is_well_and_whose_rows_are_missing_is_found_too(library_cache):
    arrow = arrow_of(library_cache)
    data = arrow.read_bytes()
    arrow.write_bytes(data[:40_000] + data[-8:])
    (found,) = troubles(library_cache)
    assert "dataset_info.json says" in found.cause


def test_a_half_built_cache_is_named(library_cache):
    (arrow_of(library_cache).parent.parent / "hash2.incomplete").mkdir()
    (found,) = troubles(library_cache)
    assert "killed, or still works" in found.cause


def test_permission_denied_names_owner_and_mode(library_cache):
    arrow = arrow_of(library_cache)
    arrow.chmod(0o000)
    words = [*modes_hold(), sys.executable, "-c"]
    refused = subprocess.run(
        [*words, READ, str(arrow)], capture_output=True, text=True, check=False
    )
    assert "Permission denied" in refused.stderr
    told = subprocess.run(
        [*words, EXPLAIN, str(library_cache)], capture_output=True, text=True, check=True
    )
    assert "Permission denied: json-train.arrow |" in told.stdout
    assert "mode 0," in told.stdout
    assert "chmod -R g+rX" in told.stdout


def test_permission_denied_by_another_s_lock_is_told(library_cache):
    lock = library_cache / "json.lock"
    lock.touch(mode=0o444)
    words = [*modes_hold(), sys.executable, "-c", EXPLAIN, str(library_cache)]
    told = subprocess.run(words, capture_output=True, text=True, check=True)
    assert re.search(r"json\.lock .*another user", told.stdout)


@pytest.mark.needs("root")
def test_no_space_left_is_told_before_a_build_and_explained(tmp_path):
    with small_disk(tmp_path / "disk", "2m") as disk:
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            (disk / "large").write_bytes(b"x" * (4 << 20))
        (found,) = troubles(disk)
        assert found.message == FULL
        assert "are free" in found.cause
        (disk / "large").unlink()
        with pytest.raises(StorageFullError, match="no space left"):
            build_once(disk / "entry", lambda part: None, needed_bytes=4 << 20)
        assert not (disk / "entry").exists()


def test_a_link_whose_target_was_removed_is_told(tmp_path):
    (tmp_path / "rows").symlink_to(tmp_path / "gone")
    (found,) = troubles(tmp_path)
    assert found.message == "Can't read rows"
    assert "is not there" in found.cause
