"""No page of a Parquet file is decompressed before its header has said that it is small."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skymark.cache.conversion import batches
from skymark.model.errors import DataError
from skymark.parquet_pages import largest_dictionary

KIB = 1 << 10
SMALL = {
    "text": [f"text {k}" for k in range(3000)],
    "same": ["one of few"] * 3000,
    "number": list(range(3000)),
    "none": [None, 1] * 1500,
    "list": [[1, 2]] * 3000,
    "file": [{"bytes": b"x" * 50, "path": "a"}] * 3000,
}


def looked_at(table, columns=None, largest=64 * KIB, **options):
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    file = pq.ParquetFile(buffer)
    return [
        largest_dictionary(file.metadata, number, buffer, columns, largest)
        for number in range(file.num_row_groups)
    ]


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_a_usual_file_is_taken(compression, version, dictionary):
    options = {"data_page_version": version, "use_dictionary": dictionary, "data_page_size": 4096}
    found = looked_at(
        pa.table(SMALL), compression=compression, row_group_size=1000, **options, write_page_index=1
    )
    assert len(found) == 3
    assert all(found) is dictionary


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize(
    "rows",
    [
        ["x" * 65 * KIB],
        ["short"] * 100 + ["x" * 65 * KIB, "short"],
        [b"\xff" * 65 * KIB],
        [{"bytes": b"x" * 65 * KIB}],
        [["x" * 65 * KIB]],
    ],
)
def test_a_large_value_is_refused_unread(rows, dictionary, version, compression):
    table = pa.table({"value": rows, "other": list(range(len(rows)))})
    options = {
        "compression": compression,
        "use_dictionary": dictionary,
        "data_page_version": version,
    }
    with pytest.raises(DataError, match=r"'value.* 6[67]\.[0-9] kB"):
        looked_at(table, **options)
    assert looked_at(table, ["other"], **options)


@pytest.mark.parametrize("value", [7, None])
def test_a_long_list_of_one_number_is_refused(value):
    row = pa.array(np.zeros(10 * KIB, np.int8)) if value else pa.nulls(10 * KIB, pa.int8())
    lists = pa.ListArray.from_arrays([0, len(row)], row)
    with pytest.raises(DataError, match="column 'list"):
        looked_at(pa.table({"list": lists}))


def test_a_damaged_page_is_refused():
    buffer = io.BytesIO()
    pq.write_table(pa.table({"text": ["one"]}), buffer)
    metadata = pq.ParquetFile(buffer).metadata
    whole = buffer.getvalue()
    at = metadata.row_group(0).column(0).dictionary_page_offset
    for bad in (b"\xff" * 30, b"\x00", b"\x1c" * 30, b"\x18\xff\xff\x7f"):
        damaged = io.BytesIO(whole[:at] + bad + whole[at + len(bad) :])
        with pytest.raises(DataError, match="damaged page"):
            largest_dictionary(metadata, 0, damaged, None, 64 * KIB)
    with pytest.raises(DataError, match="damaged page"):
        largest_dictionary(metadata, 0, io.BytesIO(whole[: at + 2]), None, 64 * KIB)


def test_a_cache_converts_no_bomb(tmp_path):
    path = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({"text": ["x" * (257 << 20)]}), path, compression="zstd")
    assert path.stat().st_size < 20 * KIB
    with pytest.raises(DataError, match="page of 269 MB"):
        list(batches([path], "parquet", None))
