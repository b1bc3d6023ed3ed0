"""Files come into the page cache, as far as memory and time allow."""

import ctypes
import mmap
import os

import pytest

from skymark.machine import disk
from skymark.machine.disk import (
    CHUNK_BYTES,
    cached_share,
    drop_page_cache,
    fill_page_cache,
    write_back,
)


def resident_share(path):
    """The share of a file's pages that are in memory, by ``mincore``; to look brings none there."""
    size = path.stat().st_size
    resident = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), size) as mapped:
        place = ctypes.c_char.from_buffer(mapped)
        assert ctypes.CDLL(None).mincore(ctypes.byref(place), ctypes.c_size_t(size), resident) == 0
        del place
    return sum(page & 1 for page in resident) / len(resident)


@pytest.fixture
def dropped(tmp_path):
    """A folder of files that are on the disk only."""
    (tmp_path / "shards").mkdir()
    (tmp_path / "index").write_bytes(b"7" * 5000)
    (tmp_path / "shards" / "one").write_bytes(os.urandom(16 * CHUNK_BYTES + 1))
    drop_page_cache(tmp_path)
    if resident_share(tmp_path / "shards" / "one") > 0.9:
        pytest.skip("this file system has no page cache that can be dropped")
    return tmp_path


def test_the_share_of_files_in_memory_is_seen_and_nothing_is_loaded(dropped):
    (dropped / "empty").touch()
    before = cached_share(dropped)
    assert before == cached_share(dropped)
    assert before == pytest.approx(resident_share(dropped / "shards" / "one"), abs=0.01)
    with (dropped / "shards" / "one").open("rb") as file:
        file.read(8 * CHUNK_BYTES)
    between = cached_share(dropped)
    assert before < between
    assert between == pytest.approx(resident_share(dropped / "shards" / "one"), abs=0.01)
    fill_page_cache(dropped, 60)
    assert cached_share(dropped) == 1
    assert cached_share(dropped / "absent") is None


def test_files_that_were_dropped_are_there_again(dropped):
    fill_page_cache(dropped, 60)
    assert resident_share(dropped / "shards" / "one") == 1
    assert resident_share(dropped / "index") == 1


def test_no_more_is_read_than_memory_can_hold(dropped, monkeypatch):
    monkeypatch.setattr(disk, "_memory_bytes", lambda: 2 * CHUNK_BYTES)
    fill_page_cache(dropped, 60)
    assert resident_share(dropped / "shards" / "one") < 0.9


def test_reading_ends_when_its_time_is_over(dropped):
    fill_page_cache(dropped, 0)
    assert resident_share(dropped / "shards" / "one") < 0.9


class Cached(ctypes.Structure):
    """Pages of a file by their state: ``struct cachestat`` of linux/mman.h."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ("cached", "dirty", "in_writeback", "evicted", "recently_evicted")
    ]


def unwritten_pages(path):
    """Return the pages of a file that are not on the disk yet, by ``cachestat`` of Linux 6.5."""
    found, whole = Cached(), (ctypes.c_uint64 * 2)(0, 0)
    with path.open("rb") as file:
        system_call = ctypes.CDLL(None, use_errno=True).syscall
        if system_call(451, file.fileno(), ctypes.byref(whole), ctypes.byref(found), 0):
            pytest.skip("this kernel does not tell which pages are on the disk")
    return found.dirty + found.in_writeback


def test_data_is_on_the_disk_after_it_was_written_back(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(os.urandom(CHUNK_BYTES))
    if not unwritten_pages(path):
        pytest.skip("this file system writes at once")
    write_back(tmp_path)
    assert unwritten_pages(path) == 0
    write_back(tmp_path / "absent")
