"""Every kind of local data is recognised, counted, read in order and refused with reason."""

from __future__ import annotations

import io
import json
import os
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from skymark.model.errors import DataError
from skymark.suites.loading.dataset.sources.folder import MediaFolder
from skymark.suites.loading.dataset.sources.opening import open_source
from skymark.suites.loading.dataset.sources.parquet import ParquetFiles
from skymark.suites.loading.dataset.sources.paths import braces_expanded
from skymark.suites.loading.dataset.sources.tables import JsonLines, SeparatedValues, TextLines
from skymark.suites.loading.dataset.sources.tar import TarShards


def picture(kind: str = "JPEG", side: int = 40) -> bytes:
    pixels = np.random.default_rng(side).integers(0, 255, (side, side, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(data, str):
        path.write_text(data)
    else:
        path.write_bytes(data)
    return path


def write_shard(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def values(source, *fields, limit=100):
    found = []
    for row in source.read(fields, limit):
        if row.damage is not None:
            raise row.damage
        found.append(row.values)
    return found


class TestFolders:
    def test_classes_are_labels_and_take_turns(self, tmp_path):
        for name in ("dog/1.jpg", "dog/2.jpeg", "cat/1.png", "cat/2.JPG", "cat/3.jpg"):
            write(tmp_path / name, picture())
        write(tmp_path / "README.md", "not an image")
        source = open_source(str(tmp_path))
        assert isinstance(source, MediaFolder)
        assert source.fields == ("image", "label")
        assert source.count(100) == 5
        assert source.count(3) == 3
        assert [label for (label,) in values(source, "label")] == [0, 1, 0, 1, 0]
        assert values(source, "image", limit=1) == [((tmp_path / "cat/1.png").read_bytes(),)]

    def test_text_files_beside_images_are_their_texts(self, tmp_path):
        write(tmp_path / "a.jpg", picture())
        write(tmp_path / "a.txt", "a dog\n")
        source = open_source(str(tmp_path))
        assert values(source, "text") == [("a dog",)]

    def test_an_image_without_its_text_is_named(self, tmp_path):
        write(tmp_path / "a.jpg", picture())
        write(tmp_path / "a.txt", "a dog")
        write(tmp_path / "b.jpg", picture())
        with pytest.raises(DataError, match=r"b\.jpg .*b\.txt"):
            values(open_source(str(tmp_path)), "text")

    def test_a_text_in_another_encoding_is_named(self, tmp_path):
        write(tmp_path / "a.jpg", picture())
        write(tmp_path / "a.txt", "café".encode("latin-1"))
        with pytest.raises(DataError, match=r"a\.txt .*no UTF-8"):
            values(open_source(str(tmp_path)), "text")

    def test_a_file_that_vanished_is_named(self, tmp_path):
        path = write(tmp_path / "a.jpg", picture())
        source = open_source(str(tmp_path))
        path.unlink()
        path.mkdir()
        with pytest.raises(DataError, match=r"a\.jpg cannot"):
            values(source, "image")

    def test_hidden_files_are_left_out(self, tmp_path):
        write(tmp_path / "a.jpg", picture())
        write(tmp_path / "._a.jpg", b"")
        write(tmp_path / ".thumbs/b.jpg", b"")
        assert open_source(str(tmp_path)).count(10) == 1

    def test_a_folder_without_usable_files_is_refused(self, tmp_path):
        write(tmp_path / "notes.md", "nothing")
        with pytest.raises(DataError, match=f"{tmp_path} holds no file"):
            open_source(str(tmp_path))

    def test_a_folder_of_several_kinds_is_refused(self, tmp_path):
        write(tmp_path / "a.csv", "text\nx")
        write(tmp_path / "b.jsonl", "{}")
        with pytest.raises(DataError, match=r"\(a\.csv and b\.jsonl\)"):
            open_source(str(tmp_path))


class TestTarShards:
    def test_members_with_one_key_are_one_row(self, tmp_path):
        write_shard(
            tmp_path / "s-000.tar",
            {"x/1.jpg": picture(), "x/1.cls": b"7", "x/2.cls": b"8\n", "x/2.png": picture("PNG")},
        )
        write_shard(tmp_path / "s-001.tar", {"1.JPG": picture(), "1.cls": b"9"})
        source = open_source(str(tmp_path / "s-{000..001}.tar"))
        assert isinstance(source, TarShards)
        assert source.fields == ("image", "label")
        assert source.count(100) == 3
        assert [label for (label,) in values(source, "label")] == ["7", "8", "9"]
        assert values(source, "image")[1] == (picture("PNG"),)
        assert [row.place for row in source.read(("label",), 1)] == [f"{tmp_path}/s-000.tar: x/1"]

    def test_keys_of_json_members_are_fields(self, tmp_path):
        member = json.dumps({"caption": "a dog", "width": 3}).encode()
        write_shard(tmp_path / "s.tar", {"1.jpg": picture(), "1.json": member})
        source = open_source(str(tmp_path))
        assert source.fields == ("image", "caption", "width")
        assert values(source, "caption", "width") == [("a dog", 3)]

    def test_an_element_may_have_another_image_format(self, tmp_path):
        write_shard(tmp_path / "s.tar", {"1.jpg": picture(), "2.png": picture("PNG")})
        source = open_source(str(tmp_path))
        assert len(values(source, "image")) == 2

    @pytest.mark.parametrize(
        ("name", "data", "field", "reason"),
        [
            ("2.json", b'{"other": 1}', "caption", "2 has no 'caption' in its .json"),
            ("2.json", b"[]", "caption", r"2\.json .*no JSON object"),
        ],
    )
    def test_json_that_differs_is_named(self, tmp_path, name, data, field, reason):
        write_shard(tmp_path / "s.tar", {"1.json": b'{"caption": "a"}', name: data})
        source = open_source(str(tmp_path))
        with pytest.raises(DataError, match=reason):
            values(source, field)

    def test_text_in_another_encoding_is_named(self, tmp_path):
        write_shard(tmp_path / "s.tar", {"1.txt": "café".encode("latin-1")})
        with pytest.raises(DataError, match=r"s\.tar: 1\.txt .*UTF-8"):
            values(open_source(str(tmp_path)), "text")

    def test_compressed_shards_are_read(self, tmp_path):
        with tarfile.open(tmp_path / "s.tar.gz", "w:gz") as archive:
            info = tarfile.TarInfo("1.txt")
            info.size = 2
            archive.addfile(info, io.BytesIO(b"hi"))
        assert values(open_source(str(tmp_path / "s.tar.gz")), "text") == [("hi",)]

    def test_an_element_that_lacks_a_field_is_named(self, tmp_path):
        write_shard(tmp_path / "s.tar", {"1.txt": b"a", "1.cls": b"0", "2.txt": b"b"})
        with pytest.raises(DataError, match=r"s\.tar: 2\b.* \.cls"):
            values(open_source(str(tmp_path)), "label")

    @pytest.mark.parametrize("kept", [100, 700])
    def test_a_cut_off_shard_is_refused(self, tmp_path, kept):
        path = write_shard(tmp_path / "s.tar", {"1.jpg": picture(side=90)})
        path.write_bytes(path.read_bytes()[:kept])
        with pytest.raises(DataError, match=r"(?s)s\.tar .*\bagain"):
            values(open_source(str(path)), "image")

    def test_an_empty_shard_is_refused(self, tmp_path):
        write_shard(tmp_path / "s.tar", {})
        with pytest.raises(DataError, match="holds no element"):
            open_source(str(tmp_path))

    def test_json_that_is_none_is_named(self, tmp_path):
        write_shard(tmp_path / "s.tar", {"1.json": b"{"})
        with pytest.raises(DataError, match=r"s\.tar: 1\.json .*JSON"):
            open_source(str(tmp_path))


class TestTables:
    def test_lines_of_text_are_rows(self, tmp_path):
        write(tmp_path / "b.txt", "third\n")
        write(tmp_path / "a.txt", "first\n\n  \nsecond\n")
        source = open_source(str(tmp_path))
        assert isinstance(source, TextLines)
        assert values(source, "text") == [("first",), ("second",), ("third",)]
        assert source.count(2) == 2
        assert [row.place for row in source.read(("text",), 2)][1] == f"{tmp_path}/a.txt:4"

    def test_json_lines_are_rows(self, tmp_path):
        write(tmp_path / "a.jsonl", '{"text": "x", "label": 1}\n\n{"text": "y", "label": 0}\n')
        source = open_source(str(tmp_path / "a.jsonl"))
        assert isinstance(source, JsonLines)
        assert source.fields == ("text", "label")
        assert values(source, "label", "text") == [(1, "x"), (0, "y")]

    @pytest.mark.parametrize("line", ["{", "[1]"])
    def test_a_line_that_is_no_json_object_is_named(self, tmp_path, line):
        write(tmp_path / "a.jsonl", '{"text": "x"}\n' + line)
        with pytest.raises(DataError, match=r"a\.jsonl:2 .*no JSON"):
            values(open_source(str(tmp_path)), "text")

    def test_a_row_that_lacks_a_key_is_named(self, tmp_path):
        write(tmp_path / "a.jsonl", '{"text": "x"}\n{"other": "x"}')
        with pytest.raises(DataError, match=r"a\.jsonl:2 .*'text'"):
            values(open_source(str(tmp_path)), "text")

    def test_separated_values_have_a_header(self, tmp_path):
        write(tmp_path / "a.csv", 'text,label\n"one, two",1\n"three\nlines",0\n')
        source = open_source(str(tmp_path))
        assert isinstance(source, SeparatedValues)
        assert source.fields == ("text", "label")
        assert source.count(10) == 2
        assert values(source, "text") == [("one, two",), ("three\nlines",)]

    def test_tabs_separate_in_tsv(self, tmp_path):
        write(tmp_path / "a.tsv", "x\ty\n1\t2\n")
        assert values(open_source(str(tmp_path)), "y") == [("2",)]

    @pytest.mark.parametrize("name", ["day_0.txt", "day_0.tsv"])
    def test_click_logs_need_no_header(self, tmp_path, name):
        line = "\t".join(["1", *map(str, range(13)), *["68fd1e64"] * 26])
        write(tmp_path / name, f"{line}\n{line}\n")
        source = open_source(str(tmp_path))
        assert isinstance(source, SeparatedValues)
        assert source.count(9) == 2
        assert values(source, "label", "I13", "C26", limit=1) == [("1", "12", "68fd1e64")]

    def test_a_row_of_another_length_is_named(self, tmp_path):
        write(tmp_path / "a.csv", "x,y\n1,2\n3\n")
        with pytest.raises(DataError, match=r"a\.csv:3\b.* 1\b.* 2 column"):
            values(open_source(str(tmp_path)), "x")

    def test_a_table_without_rows_is_refused(self, tmp_path):
        write(tmp_path / "a.csv", "x,y\n")
        with pytest.raises(DataError, match="holds no row"):
            open_source(str(tmp_path))

    def test_text_in_another_encoding_is_refused(self, tmp_path):
        write(tmp_path / "a.txt", "fine\ncafé".encode("latin-1"))
        with pytest.raises(DataError, match=r"a\.txt .*no UTF-8"):
            values(open_source(str(tmp_path)), "text")


class TestParquet:
    def test_files_are_read_one_after_another(self, tmp_path):
        pq.write_table(pa.table({"text": ["a", "b"], "n": [1, 2]}), tmp_path / "0.parquet")
        pq.write_table(pa.table({"text": ["c"], "n": [3]}), tmp_path / "1.parquet")
        source = open_source(str(tmp_path))
        assert isinstance(source, ParquetFiles)
        assert source.fields == ("text", "n")
        assert source.count(100) == 3
        assert source.count(1) == 1
        assert values(source, "n", "text") == [(1, "a"), (2, "b"), (3, "c")]
        assert values(source, "n", limit=2) == [(1,), (2,)]

    def test_images_of_hub_datasets_are_their_bytes(self, tmp_path):
        table = pa.table({"img": [{"bytes": picture(), "path": "1.jpg"}]})
        pq.write_table(table, tmp_path / "0.parquet")
        assert values(open_source(str(tmp_path)), "img") == [(picture(),)]

    def test_a_cut_off_file_is_refused(self, tmp_path):
        pq.write_table(pa.table({"n": list(range(1000))}), tmp_path / "0.parquet")
        path = tmp_path / "0.parquet"
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(DataError, match=r"0\.parquet .*whole Parquet"):
            open_source(str(tmp_path))

    def test_a_file_that_lacks_a_column_is_named(self, tmp_path):
        pq.write_table(pa.table({"n": [1]}), tmp_path / "0.parquet")
        pq.write_table(pa.table({"m": [1]}), tmp_path / "1.parquet")
        with pytest.raises(DataError, match=r"1\.parquet .*'n'"):
            values(open_source(str(tmp_path)), "n")


def test_a_path_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"no file .*/absent\b.*--data"):
        open_source(str(tmp_path / "absent"))


def test_a_file_that_is_no_dataset_is_refused(tmp_path):
    path = write(tmp_path / "movie.mp4", b"\0")
    with pytest.raises(DataError, match=r"movie\.mp4 .*no dataset"):
        open_source(str(path))


def test_braces_expand_with_leading_zeros():
    assert braces_expanded("a-{08..10}.tar") == ["a-08.tar", "a-09.tar", "a-10.tar"]
    assert braces_expanded("{0..1}{2..3}") == ["02", "03", "12", "13"]


def test_an_empty_range_is_refused():
    with pytest.raises(DataError, match="lower number first"):
        open_source("a-{2..1}.tar")


def test_a_fingerprint_changes_with_the_data_and_only_then(tmp_path):
    path = write(tmp_path / "a.txt", "one\n")
    os.utime(path, ns=(1, 1))
    before = open_source(str(tmp_path)).fingerprint()
    assert open_source(str(tmp_path)).fingerprint() == before
    os.utime(path, ns=(1, 2))
    touched = open_source(str(tmp_path)).fingerprint()
    write(tmp_path / "b.txt", "two\n")
    assert len({before, touched, open_source(str(tmp_path)).fingerprint()}) == 3
