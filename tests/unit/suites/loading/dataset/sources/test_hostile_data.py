"""Data of strangers: refused by name, without a hang, a traceback or all of the memory."""

from __future__ import annotations

import io
import os
import tarfile
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from skymark.model.errors import DataError
from skymark.suites.loading.dataset.sources.opening import open_source
from skymark.suites.loading.dataset.sources.paths import files_below
from skymark.suites.loading.dataset.values import (
    categories,
    category,
    counts,
    label,
    numbers,
    text_bytes,
)
from tests.fuzzed_readers import outcomes

GIB = 1 << 30


def picture():
    buffer = io.BytesIO()
    Image.fromarray(np.zeros((40, 40, 3), np.uint8)).save(buffer, "JPEG")
    return buffer.getvalue()


def read_all(data, field):
    """Do with a source what planning and importing do."""
    source = open_source(str(data))
    source.fingerprint()
    source.count(10)
    return [value for (value,) in values(source, field)]


def values(source, *fields):
    """Return the values of rows; a damaged one raises, as in an import."""
    for row in source.read(fields, 10):
        if row.damage is not None:
            raise row.damage
        yield row.values


def header(path, size, **fields):
    """Write an archive of one member of so many bytes, most of them a hole."""
    member = tarfile.TarInfo("x.json")
    member.size = size
    for name, value in fields.items():
        setattr(member, name, value)
    with path.open("wb") as file:
        file.write(member.tobuf())
        file.seek(size + tarfile.BLOCKSIZE)
        file.write(bytes(2 * tarfile.BLOCKSIZE))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["fifo", "zero", "directory"])
@pytest.mark.parametrize("name", ["b.jpg", "b.png", "b.wav", "b.tar", "b.parquet", "b.jsonl"])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path, kind, name):
    path = tmp_path / name
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "zero":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    field = "audio" if name.endswith("wav") else "image"
    with pytest.raises(DataError, match=r"no (regular )?file"):
        read_all(tmp_path, field)
    if kind != "directory" and not name.endswith(("jpg", "png", "wav")):
        with pytest.raises(DataError, match="no regular file"):
            read_all(path, field)


@pytest.mark.timeout(60)
def test_a_text_that_is_a_device_is_refused(tmp_path):
    (tmp_path / "a.jpg").write_bytes(picture())
    (tmp_path / "a.txt").symlink_to("/dev/zero")
    with pytest.raises(DataError, match="no regular file"):
        read_all(tmp_path, "text")


def test_a_link_to_a_file_is_followed(tmp_path):
    (tmp_path / "a.bin").write_bytes(picture())
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a.jpg").symlink_to("../a.bin")
    assert read_all(tmp_path / "set", "image") == [picture()]


@pytest.mark.timeout(60)
def test_links_in_circles_end(tmp_path):
    for name in "abcdefghij":
        (tmp_path / name).symlink_to(".")
    (tmp_path / "x.jpg").write_bytes(picture())
    assert files_below(tmp_path).files == [tmp_path / "x.jpg"]


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("a.jpg", "268 MB"),
        ("a.png", "268 MB"),
        ("a.tar", "2,147,483,648 bytes"),
        ("long", "2,147,483,648 bytes"),
    ],
)
def test_an_element_of_gibibytes_is_refused_unread(tmp_path, name, size):
    if name == "a.tar":
        header(tmp_path / name, 2 * GIB)
    elif name == "long":
        header(tmp_path / "a.tar", 2 * GIB, type=tarfile.GNUTYPE_LONGNAME)
    else:
        with (tmp_path / name).open("wb") as file:
            file.write(picture())
            file.truncate(2 * GIB)
    with pytest.raises(DataError, match=size):
        read_all(tmp_path, "image")


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv"])
def test_a_line_without_an_end_is_refused(tmp_path, monkeypatch, name):
    from skymark.suites.loading.dataset.sources import tables

    monkeypatch.setattr(tables, "LARGEST_VALUE_BYTES", 1000)
    (tmp_path / name).write_text("x" * 1001)
    with pytest.raises(DataError, match=rf"{name} .*1,000 characters"):
        read_all(tmp_path / name, "text")


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "9" * 5000])
def test_json_that_is_too_deep_or_too_long_is_refused(tmp_path, text):
    (tmp_path / "a.jsonl").write_text(f'{{"text": {text}')
    with pytest.raises(DataError, match="is no JSON"):
        read_all(tmp_path / "a.jsonl", "text")
    with tarfile.open(tmp_path / "b.tar", "w") as archive:
        member = tarfile.TarInfo("x.json")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text.encode()))
    with pytest.raises(DataError, match="is no JSON"):
        read_all(tmp_path / "b.tar", "text")


def test_half_a_character_is_no_text(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "\\ud800"}\n')
    (value,) = read_all(tmp_path / "a.jsonl", "text")
    with pytest.raises(DataError, match="no Unicode"):
        text_bytes(value, "a.jsonl:1")
    assert category(value) >= 0


def test_bytes_that_are_no_text_are_refused_in_parquet(tmp_path):
    offsets, content = b"\0\0\0\0\2\0\0\0", b"\xff\xfe"
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    column = pa.Array.from_buffers(pa.string(), 1, buffers)
    pq.write_table(pa.table({"text": column}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet .*whole Parquet"):
        read_all(tmp_path / "a.parquet", "text")


ABSURD = [float("inf"), -float("inf"), 10**400, 1e300, "inf", "-1e999", "9" * 999]


@pytest.mark.parametrize("value", ABSURD)
def test_figures_that_no_machine_holds_are_refused_by_name(value):
    for read in (numbers, counts):
        with pytest.raises(DataError, match=r"'x' .*a\.csv:1 .*number"):
            read({"x": value}, "a.csv:1")
    assert categories({"x": value}, "a.csv:1").dtype == np.int64
    if not isinstance(value, str):
        with pytest.raises(DataError, match=r"a\.csv:1 .*whole number"):
            label(value, "a.csv:1")


@pytest.mark.filterwarnings("ignore")
def test_changed_bytes_are_refused_or_counted():
    said = Counter(outcomes(400))
    assert [one for one in said if one.startswith("fault")] == []
    assert said["taken"] > 50
    assert said["refused"] > 50


def test_a_text_of_257_mib_in_a_small_parquet_file_is_not_unpacked(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x" * (257 << 20)]}), path, compression="zstd")
    assert path.stat().st_size < 40 << 10
    before = pa.total_allocated_bytes()
    with pytest.raises(DataError, match=r"a\.parquet: .*'text' .*\b269"):
        read_all(path, "text")
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_a_value_of_a_dictionary_is_not_unpacked_for_many_rows_at_once(tmp_path):
    path = tmp_path / "a.parquet"
    large = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int8()), ["x" * (64 << 20)])
    pq.write_table(pa.table({"text": large}), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 40 << 10
    peaks = []
    for (value,) in values(open_source(str(path)), "text"):
        assert len(value) == 64 << 20
        peaks.append(pa.total_allocated_bytes())
    assert len(peaks) == 10
    assert max(peaks) < GIB
