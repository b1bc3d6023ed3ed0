"""IO-1: every source gives the same elements, and each asks for its own ability."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from skymark.suites.loading.adapter import LoadingJob
from skymark.suites.loading.adapters.numpy import NumpyLoader, NumpyReference
from skymark.suites.loading.dataset.objects import serving
from skymark.suites.loading.scenarios.io_storage import FirstBatch, Sources
from skymark.suites.loading.storage import Storage
from skymark.suites.loading.transforms.numeric import checksum
from skymark.suites.loading.work import Size

SIZE = Size(elements=150, batch_size=16, values={"object_bytes": 5000})
FORMATS = {
    "memory": "memory",
    "files": "files",
    "tar": "tar",
    "columnar": "parquet",
    "row-groups": "parquet",
    "http": "http",
}


def test_every_source_has_a_format_and_an_ability_of_its_own():
    assert set(Sources.axis_values["source"]) == set(FORMATS)
    for source, format in FORMATS.items():
        axes = {"source": source}
        assert NumpyReference.format_for(Sources, axes) == format
        if source != "row-groups":
            assert Sources.requirements(axes) == {"map", "shuffle", f"source:{source}"}


def test_row_groups_are_read_from_columnar_files_in_stored_order():
    axes = {"source": "row-groups"}
    assert Sources.requirements(axes) == {"map", "source:columnar"}
    assert not Sources(SIZE, axes=axes).shuffle
    assert Sources(SIZE, axes={"source": "columnar"}).shuffle
    assert FirstBatch(SIZE, axes={"mode": "streaming"}).shuffle


def test_in_stored_order_each_row_group_is_decoded_once(tmp_path):
    decoded = {}
    for source in ("columnar", "row-groups"):
        scenario = Sources(SIZE, axes={"source": source})
        storage = Storage(tmp_path, scenario)
        directory = storage.prepare(NumpyReference(), "parquet")
        fields = {"batch_size": 16, "shuffle": scenario.shuffle}
        job = LoadingJob(scenario, storage.dataset(), directory, "parquet", **fields)
        loader = NumpyLoader(job)
        read, groups = loader.reader._read, []
        loader.reader._read = lambda group, read=read, groups=groups: (
            groups.append(group) or read(group)
        )
        indices = np.concatenate([batch["index"] for batch in loader.epoch(0)])
        assert sorted(indices) == list(range(150))
        decoded[source] = groups
    assert decoded["row-groups"] == [0, 1, 2]
    assert len(decoded["columnar"]) > 50


@pytest.mark.parametrize("source", FORMATS)
def test_elements_are_the_same_from_every_source(source, tmp_path):
    scenario = Sources(SIZE, axes={"source": source})
    storage, format = Storage(tmp_path, scenario), FORMATS[source]
    directory = storage.prepare(NumpyReference(), format)
    dataset = storage.dataset()
    job = LoadingJob(scenario, dataset, directory, format, batch_size=16)
    with serving(directory, latency_ms=0, bandwidth_mb_s=1000):
        reader = job.reader()
        for index in (149, 0, 63, 64):
            element = reader[index]
            np.testing.assert_array_equal(element["payload"], dataset[index]["payload"])
            assert element["payload"].dtype == np.uint8
            assert element["payload"].shape == (5000,)


def test_the_checksum_is_the_crc_of_the_bytes():
    element = checksum({"index": 0, "payload": np.frombuffer(b"123456789", np.uint8)}, {})
    # The check value of CRC-32 in Ross Williams' "A painless guide to CRC error detection".
    assert element["checksum"] == 0xCBF43926 == zlib.crc32(b"123456789")
    assert element["checksum"].dtype == np.int64
