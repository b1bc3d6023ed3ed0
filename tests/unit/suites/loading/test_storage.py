"""Datasets on disk: made once, whole, in a place that tells what they are."""

from __future__ import annotations

import errno
import threading

import pytest

from skymark.model.errors import DataError, UsageError
from skymark.suites.loading import storage as module
from skymark.suites.loading.adapters.numpy import NumpyReference
from skymark.suites.loading.dataset.formats import FORMATS
from skymark.suites.loading.registry import scenario_class
from skymark.suites.loading.storage import Storage
from skymark.suites.loading.storage_formats import BY_SOURCE, SHARED, format_of_source
from skymark.suites.loading.work import Size

TABULAR = scenario_class("TAB-1")
SIZE = Size(elements=50, batch_size=8, values=dict(TABULAR.variants["small"].values))


def storage_of(cache, size=SIZE, **fields):
    return Storage(cache, TABULAR(size=size, **fields))


class Own(NumpyReference):
    slug = "own-format"
    formats = ("mine",)

    def convert(self, dataset, directory, format):
        (directory / "data").write_text(f"{len(dataset)} {format}")


def test_a_dataset_is_made_once_and_opened_again(tmp_path):
    storage = storage_of(tmp_path)
    assert not storage.is_imported
    assert len(storage.dataset()) == 50
    written = {p: p.stat().st_mtime_ns for p in storage.canonical.iterdir()}
    assert len(storage_of(tmp_path).dataset()) == 50
    assert {p: p.stat().st_mtime_ns for p in storage.canonical.iterdir()} == written


def test_the_place_depends_on_the_data_and_not_on_seed_or_batch_size(tmp_path):
    place = storage_of(tmp_path).canonical
    assert storage_of(tmp_path, seed=9).canonical == place
    assert storage_of(tmp_path, SIZE.model_copy(update={"batch_size": 4})).canonical == place
    more = SIZE.model_copy(update={"elements": 51})
    wider = SIZE.model_copy(update={"values": dict.fromkeys(SIZE.values, 3)})
    assert len({storage_of(tmp_path, size).canonical for size in (SIZE, more, wider)}) == 3


def test_a_new_layout_does_not_read_old_data(tmp_path, monkeypatch):
    place = storage_of(tmp_path).canonical
    monkeypatch.setattr(module, "LAYOUT_VERSION", module.LAYOUT_VERSION + 1)
    assert storage_of(tmp_path).canonical != place


def test_a_shared_format_is_written_for_all_and_a_librarys_own_for_itself(tmp_path):
    storage = storage_of(tmp_path)
    assert storage.prepare(NumpyReference(), "canonical") == storage.canonical
    shared = storage.prepare(NumpyReference(), "parquet")
    assert shared == storage.of(Own, "parquet")
    assert list(shared.rglob("*.parquet"))
    mine = storage.prepare(Own(), "mine")
    assert (mine / "data").read_text() == "50 mine"
    assert mine != storage.of(NumpyReference, "mine")
    assert storage.is_ready(Own, "mine")
    assert not storage.is_ready(Own, "tar")


def test_a_format_that_the_library_does_not_write_is_an_error(tmp_path):
    with pytest.raises(NotImplementedError, match=r"numpy .*'mine'"):
        storage_of(tmp_path).prepare(NumpyReference(), "mine")


def test_half_made_data_is_removed_and_made_again(tmp_path):
    storage = storage_of(tmp_path)

    class Interrupted(Own):
        def convert(self, dataset, directory, format):
            (directory / "half").write_text("")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        storage.prepare(Interrupted(), "mine")
    place = storage.of(Own, "mine")
    assert not place.exists()
    left = place.with_name(f".{place.name}.1234.part")
    left.mkdir()
    (left / "half").write_text("left by a process that was killed")
    storage.prepare(Own(), "mine")
    assert [path.name for path in place.iterdir()] == ["data"]
    assert not left.exists()


def test_a_full_disk_says_what_to_do_and_leaves_nothing(tmp_path):
    class Large(Own):
        def convert(self, dataset, directory, format):
            raise OSError(errno.ENOSPC, "No space left on device")

    storage = storage_of(tmp_path)
    with pytest.raises(DataError, match=r"No space .*SKYMARK_CACHE"):
        storage.prepare(Large(), "mine")
    assert not storage.of(Large, "mine").exists()


def test_two_that_need_the_same_data_make_it_once(tmp_path):
    storage, made = storage_of(tmp_path), []
    storage.dataset()
    meeting = threading.Barrier(3)

    class Counting(Own):
        def convert(self, dataset, directory, format):
            made.append(format)
            super().convert(dataset, directory, format)

    def need():
        meeting.wait()
        storage.prepare(Counting(), "mine")

    threads = [threading.Thread(target=need) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["mine"]


@pytest.mark.parametrize(
    ("source", "formats", "format"),
    [
        ("memory", ("canonical",), "memory"),
        ("files", ("tar",), "files"),
        ("tar", ("indexed-tar",), "indexed-tar"),
        ("columnar", ("arrow", "parquet"), "arrow"),
        ("http", ("mds", "http-mds"), "http-mds"),
        ("http", ("mds",), "http"),
        ("http", ("s3",), "s3"),
        ("http", ("lance", "http-lance"), "http-lance"),
    ],
)
def test_a_source_is_read_in_the_librarys_own_format_where_it_has_one(source, formats, format):
    assert format_of_source(source, formats) == format


def test_an_unknown_source_is_refused():
    with pytest.raises(UsageError, match=r"'tape'.* memory, files\b"):
        format_of_source("tape", ())


def test_every_format_that_skymark_writes_is_declared_and_each_source_has_one():
    assert set(FORMATS) == SHARED
    assert all(formats[0] in SHARED for formats in BY_SOURCE.values())
