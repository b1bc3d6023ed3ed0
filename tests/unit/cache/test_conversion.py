"""A converted data set has every row of its source, once and in order, in groups fit to stream."""

from __future__ import annotations

import errno
import json
import random
from contextlib import ExitStack
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from skymark.cache.conversion import convert, snippet_after
from skymark.cache.recipe import Recipe, recipe_of
from skymark.cache.sources import SourceFile, table_of
from skymark.execute.run_caches import build_real_data
from skymark.model.errors import CacheError, DataError, StorageFullError, UsageError
from skymark.suites.loading.dataset.sources.opening import open_source

ROWS = [{"index": n, "text": f"row {n}", "half": n / 2} for n in range(1234)]


def converted(tmp_path, *sources, shards=None, field=None):
    recipe = recipe_of(tuple(map(str, sources)), field=field, needs_library=False)
    with ExitStack() as stack:
        return convert(tmp_path / "root", recipe, stack, shards=shards)


def rows_in(directory, split="train"):
    files = sorted(directory.glob(f"{split}-*.parquet"))
    return pa.concat_tables([pq.read_table(one) for one in files]).to_pylist()


def write_json(path, rows=ROWS, field=None):
    whole = {"version": 1, field: rows} if field else rows
    path.write_text(json.dumps(whole))
    return path


@pytest.mark.parametrize("form", ["list", "field", "lines"])
def test_json_in_every_form_keeps_every_row_in_order(tmp_path, form):
    path = tmp_path / "rows.json"
    if form == "lines":
        path.write_text("\n".join(map(json.dumps, ROWS)) + "\n")
    else:
        write_json(path, field="data" if form == "field" else None)
    place = converted(tmp_path, path, field="data" if form == "field" else None)
    assert rows_in(place) == ROWS
    assert len(list(place.iterdir())) == 8


def test_csv_and_parquet_are_converted_too(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("index,text\n" + "".join(f"{n},row {n}\n" for n in range(300)))
    place = converted(tmp_path, path, shards=3)
    assert rows_in(place) == [{"index": n, "text": f"row {n}"} for n in range(300)]
    sources = sorted(place.glob("*.parquet"))
    again = converted(tmp_path, *sources, shards=1)
    assert [path.name for path in again.iterdir()] == ["train-00000-of-00001.parquet"]
    assert rows_in(again) == rows_in(place)


def test_splits_stay_apart(tmp_path):
    one, other = write_json(tmp_path / "a.json"), write_json(tmp_path / "b.json", ROWS[:7])
    place = converted(tmp_path, f"train={one}", f"test={other}")
    assert rows_in(place, "train") == ROWS
    assert rows_in(place, "test") == ROWS[:7]


def test_types_that_differ_between_rows_are_widened(tmp_path):
    rows = [{"a": 1}] * 10_000 + [{"a": 1.5, "b": "late"}]
    place = converted(tmp_path, write_json(tmp_path / "rows.json", rows), shards=2)
    found = rows_in(place)
    assert found[0] == {"a": 1.0, "b": None}
    assert found[-1] == {"a": 1.5, "b": "late"}
    assert len(found) == 10_001


def test_row_groups_are_small_enough_to_stream_and_shards_are_even(tmp_path):
    rows = [{"index": n, "text": str(n) * 5000} for n in range(4000)]
    place = converted(tmp_path, write_json(tmp_path / "rows.json", rows), shards=4)
    described = [pq.read_metadata(path) for path in sorted(place.glob("*.parquet"))]
    assert [one.num_rows for one in described] == [1000] * 4
    sizes = [
        one.row_group(g).total_byte_size for one in described for g in range(one.num_row_groups)
    ]
    assert len(sizes) > 4
    assert max(sizes) < 16 << 20


@pytest.mark.parametrize(
    ("content", "field", "message"),
    [
        ('{"data": [{"a": 1}]}', None, "--field data"),
        ('{"data": [{"a": 1}]}', "rows", "'rows'.* has data"),
        ('[{"a": 1}', None, r"rows\.json.* as json"),
        ("[]", None, "has no rows"),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path, content, field, message):
    path = tmp_path / "rows.json"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        converted(tmp_path, path, field=field)
    assert list((tmp_path / "root" / "converted").glob("[!.]*")) == []


def test_a_disk_that_fills_up_meanwhile_says_so_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(StorageFullError, match=r"during its build"):
        converted(tmp_path, write_json(tmp_path / "rows.json"))
    assert [path.name for path in (tmp_path / "root" / "converted").iterdir()] == [".leases"]


@pytest.mark.parametrize(
    ("rows", "shards"),
    [(1, 1), (1, 4), (2, 4), (3, 4), (4, 4), (5, 4), (7, 4), (9, 4), (11, 7), (97, 10), (8, 1000)],
)
def test_shards_are_numbered_by_how_many_there_are_and_none_is_empty(tmp_path, rows, shards):
    place = converted(tmp_path, write_json(tmp_path / "rows.json", ROWS[:rows]), shards=shards)
    files = sorted(place.iterdir())
    count = min(rows, shards)
    assert [one.name for one in files] == [
        f"train-{number:05d}-of-{count:05d}.parquet" for number in range(count)
    ]
    lengths = [pq.read_metadata(one).num_rows for one in files]
    assert min(lengths) >= 1
    assert max(lengths) - min(lengths) <= 1
    assert rows_in(place) == ROWS[:rows]
    assert pa.dataset.dataset(place).count_rows() == rows
    assert {table_of(one.name).split for one in files} == {"train"}
    values = [one.values for one in open_source(str(place)).read(("index",), rows + 1)]
    assert values == [(row["index"],) for row in ROWS[:rows]]


def test_shards_have_every_row_once_whatever_the_numbers(tmp_path):
    """Also where batches end within a shard, and shards within a batch."""
    chance = random.Random(0)
    for case in range(8):
        rows = [{"index": n} for n in range(10_007 if case == 0 else chance.randint(1, 40))]
        shards = chance.randint(1, 60)
        folder = tmp_path / str(case)
        folder.mkdir()
        place = converted(folder, write_json(folder / "rows.json", rows), shards=shards)
        lengths = [pq.read_metadata(one).num_rows for one in sorted(place.iterdir())]
        assert (len(lengths), sum(lengths)) == (min(shards, len(rows)), len(rows))
        assert max(lengths) - min(lengths) <= 1
        assert rows_in(place) == rows


def test_a_table_of_a_header_alone_has_no_rows(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("index,text\n")
    with pytest.raises(DataError, match="has no rows"):
        converted(tmp_path, path)


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_what_the_hub_has_and_the_disk_has_no_room_for_is_not_fetched(tmp_path, form):
    """Three times what the Hub says of its files, and five percent: no file is asked for."""
    place = "hf://datasets/owner/large@main/data/train-0000{}-of-00003.parquet"
    sizes = (6 * 10**14, 4 * 10**14, None)
    files = tuple(
        SourceFile(address=place.format(number), size_bytes=size, version="c" * 40)
        for number, size in enumerate(sizes)
    )
    said = r"needs about 3150 TB, and [\d.]+ [GT]B are free; nothing was built"
    with ExitStack() as stack, pytest.raises(StorageFullError, match=said):
        convert(tmp_path / "root", Recipe(sources=files), stack, form=form)
    assert [path.name for path in (tmp_path / "root" / "converted").iterdir()] == [".leases"]


def test_runs_data_of_the_hub_that_the_disk_has_no_room_for_is_not_read(tmp_path):
    data = SimpleNamespace(address="hf://owner/large", fingerprint="0", size_bytes=10**15, files=())
    with pytest.raises(StorageFullError, match=r" 3150 TB"):
        build_real_data(tmp_path, data)


def test_tar_shards_are_not_converted(tmp_path):
    (tmp_path / "0.tar").touch()
    with pytest.raises(UsageError, match="--cache-policy shared"):
        converted(tmp_path, tmp_path / "0.tar")


def test_a_library_that_cannot_save_is_heard(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no such feature\nexit 3\n")
    python.chmod(0o755)
    path = write_json(tmp_path / "rows.json")
    recipe = recipe_of((str(path),), python=str(python), needs_library=False)
    said = r"`datasets` could not save rows: `python` ended with status 3\nno such feature"
    with ExitStack() as stack, pytest.raises(CacheError, match=said):
        convert(tmp_path / "root", recipe, stack, form="arrow")


def test_the_call_that_reads_it_is_named(tmp_path):
    assert snippet_after(tmp_path, "arrow", ["train"]).startswith("load_from_disk(")
    text = snippet_after(tmp_path, "parquet", ["train", "test"])
    assert "test-*.parquet" in text
    assert "streaming=True" in text
