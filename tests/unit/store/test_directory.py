"""A mounted directory as a store."""

from __future__ import annotations

import os

import pytest

from skymark.model.errors import StoreRefusedError, StoreUnavailableError, UsageError
from skymark.store import directory as module
from skymark.store.directory import open_directory


@pytest.fixture
def store(tmp_path):
    (tmp_path / "a b").mkdir()
    return open_directory((tmp_path / "a b").as_uri(), "run")


def test_files_are_put_listed_read_and_removed(store, tmp_path):
    store.check()
    store.put("records/a.json", b"12")
    assert (tmp_path / "a b" / "run" / "records" / "a.json").read_bytes() == b"12"
    assert store.sizes() == {"records/a.json": 2}
    assert store.get("records/a.json") == b"12"
    store.delete("records/a.json")
    store.delete("records/a.json")
    assert store.sizes() == {}
    with pytest.raises(FileNotFoundError):
        store.get("records/a.json")


def test_a_directory_that_is_not_mounted_is_refused_and_not_made(tmp_path):
    store = open_directory((tmp_path / "mount").as_uri(), "run")
    with pytest.raises(StoreRefusedError, match=f"{tmp_path / 'mount'} .*mount it"):
        store.check()
    assert not (tmp_path / "mount").exists()


def test_a_check_leaves_nothing_behind(store, tmp_path):
    store.check()
    assert list((tmp_path / "a b").iterdir()) == []
    store.put("a", b"1")
    store.check()
    assert [path.name for path in (tmp_path / "a b").rglob("*")] == ["run", "a"]


def test_a_full_disk_is_a_store_that_may_work_later(store, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_below", full)
    with pytest.raises(StoreUnavailableError, match="No space left"):
        store.put("a", b"")


def test_a_directory_that_may_not_be_written_is_refused(store, monkeypatch):
    def denied(*_, **__):
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(module, "write_below", denied)
    with pytest.raises(StoreRefusedError, match=os.strerror(13)):
        store.check()


def test_a_file_that_is_too_large_is_not_read(store, monkeypatch):
    monkeypatch.setattr(module, "LARGEST_FILE_BYTES", 3)
    store.put("a", b"1234")
    with pytest.raises(StoreRefusedError, match="larger"):
        store.get("a")


@pytest.mark.parametrize("url", ["file://host/x", "file:relative"])
def test_only_absolute_local_directories_are_addresses(url):
    with pytest.raises(UsageError, match="ABSOLUTE"):
        open_directory(url, "run")
