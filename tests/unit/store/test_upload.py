"""A store is kept equal to a directory, in order, in the background, and with proof."""

from __future__ import annotations

import contextlib
import time
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from skymark.model.record import Cell, Record, Status
from skymark.model.schema import parse_record, sealed
from skymark.store.upload import Upload
from tests.waiting import until

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@contextmanager
def uploading(store, directory):
    upload = Upload(store, directory, longest_wait_s=0.2)
    try:
        yield upload
    finally:
        upload.stop()


def stored(store):
    return {path: (store.root / path).read_bytes() for path in store.sizes()}


def on_disk(directory):
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_everything_is_stored_and_read_back(store, directory):
    with uploading(store, directory) as upload:
        assert len(upload.unstored()) == 6
        assert upload.drain(60) == []
        assert upload.stored == 6
    assert stored(store) == on_disk(directory)


def test_a_record_goes_after_what_belongs_to_it(store, directory):
    with uploading(store, directory) as upload:
        upload.changed("A.1", ["records/A.1.json", "logs/A.1.log", "samples/A.1.parquet"])
        upload.drain(60)
    order = [path for path in store.puts if "A.1" in path]
    assert order == ["samples/A.1.parquet", "logs/A.1.log", "records/A.1.json"]


def test_a_file_that_is_gone_is_removed_from_the_store(store, directory):
    (directory / "rounds/A.1").mkdir(parents=True)
    (directory / "rounds/A.1/0.json").write_text("round")
    with uploading(store, directory) as upload:
        assert upload.drain(60) == []
        assert "rounds/A.1/0.json" in store.sizes()
        (directory / "rounds/A.1/0.json").unlink()
        upload.changed("A.1", ["rounds/A.1/0.json"])
        assert upload.drain(60) == []
    assert "rounds/A.1/0.json" not in store.sizes()


@pytest.mark.parametrize(("held", "asked"), [(None, True), ({}, False), ({"gone": 1}, True)])
def test_a_store_is_asked_to_remove_only_what_it_may_hold(store, directory, held, asked):
    with uploading(store, directory) as upload:
        if held is not None:
            upload.expect(held)
        upload.changed("", ["gone"])
        assert upload.drain(60) == []
    assert store.deletes == (["gone"] if asked else [])


def test_a_file_that_goes_while_it_is_sent_does_not_count_as_stored(store, directory):
    store.may_go_on.clear()
    with uploading(store, directory) as upload:
        upload.changed("A.1", ["logs/A.1.log"])
        assert store.in_request.wait(60)
        (directory / "logs/A.1.log").unlink()
        upload.changed("A.1", ["logs/A.1.log"])
        store.may_go_on.set()
        assert upload.drain(60) == []
        assert upload.stored == len(on_disk(directory))


def test_rounds_that_a_record_has_replaced_leave_the_store_and_others_stay(store, directory):
    store.root.mkdir()
    for cell in ("A.1", "C.1"):
        store.put(f"rounds/{cell}/0.json", b"round")
    with uploading(store, directory) as upload:
        upload.expect(store.sizes())
        assert upload.drain(60) == []
    rounds = [path for path in store.sizes() if path.startswith("rounds/")]
    assert rounds == ["rounds/C.1/0.json"]


def test_a_file_that_changed_after_it_was_stored_is_sent_again(store, directory):
    with uploading(store, directory) as upload:
        assert upload.drain(60) == []
        (directory / "logs/A.1.log").write_text("one line more")
        assert upload.unstored() == ["logs/A.1.log"]
        assert upload.drain(60) == []
    assert stored(store) == on_disk(directory)


def test_a_store_that_was_away_gets_everything_when_it_is_back(store, directory):
    store.away = True
    with uploading(store, directory) as upload:
        assert len(upload.drain(0)) == 6
        until(lambda: "away" in str(upload.problem))
        store.away = False
        assert upload.drain(60) == []
        assert upload.problem is None
    assert stored(store) == on_disk(directory)


def test_a_store_that_gives_back_other_bytes_is_found_out(store, directory):
    store.damages.add("records/B.1.json")
    with uploading(store, directory) as upload:
        upload.drain(0)
        until(
            lambda: upload.stored == 5 and "other bytes of records/B.1.json" in str(upload.problem)
        )
        assert upload.unstored() == ["records/B.1.json"]


def test_two_workers_that_finish_one_cell_leave_a_whole_one_and_both_end(store, tmp_path):
    cell = Cell(suite="loading", scenario="A", variant="1", adapter="x")
    record = Record(cell=cell, cell_hash=cell.hash, status=Status.OK, started_at=NOW, ended_at=NOW)
    paths = [f"samples/{cell.id}.parquet", f"records/{cell.id}.json"]
    with contextlib.ExitStack() as stack:
        workers = []
        for name in "ab":
            for folder in ("samples", "records"):
                (tmp_path / name / folder).mkdir(parents=True)
            (tmp_path / name / paths[0]).write_text(f"samples of {name}")
            mine = record.model_copy(update={"hardware_key": name})
            (tmp_path / name / paths[1]).write_bytes(sealed(mine))
            workers.append(stack.enter_context(uploading(store, tmp_path / name)))
        for worker in workers:
            worker.changed(cell.id, paths)
        for worker in workers:
            assert worker.drain(60) == []
    stands = parse_record(store.get(paths[1]))
    assert store.get(paths[0]).decode() == f"samples of {stands.hardware_key}"


def test_what_the_store_has_already_is_compared_and_not_sent_again(store, directory):
    with uploading(store, directory) as upload:
        upload.drain(60)
    (store.root / "records/B.1.json").write_text("content of records/B.1.jsoN")
    store.puts.clear()
    with uploading(store, directory) as again:
        again.expect(store.sizes())
        assert again.drain(60) == []
    assert store.puts == ["records/B.1.json"]
    assert stored(store) == on_disk(directory)


def test_what_was_just_fetched_is_not_read_again_unless_it_changes(store, directory):
    with uploading(store, directory) as upload:
        upload.drain(60)
    store.puts.clear()
    with uploading(store, directory) as again:
        for path in store.sizes():
            again.seen(path, store.get(path))
        assert again.unstored() == []
        (directory / "logs/A.1.log").write_text("one line more")
        assert again.drain(60) == []
    assert store.puts == ["logs/A.1.log"]


def test_nothing_is_sent_during_a_pause(store, directory):
    with uploading(store, directory) as upload:
        assert upload.pause(1)
        upload.changed("", ["manifest.json"])
        time.sleep(0.2)
        assert store.puts == []
        upload.resume()
        assert upload.drain(60) == []


def test_a_pause_says_if_a_request_did_not_end_in_time(store, directory):
    store.may_go_on.clear()
    with uploading(store, directory) as upload:
        upload.changed("", ["manifest.json"])
        assert store.in_request.wait(60)
        assert not upload.pause(0.05)
        store.may_go_on.set()
        assert upload.pause(60)
        assert store.puts == ["manifest.json"]
