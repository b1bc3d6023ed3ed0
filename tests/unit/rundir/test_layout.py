"""The paths of a run: which there are, and whose they are."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from skymark.model.manifest import RUN_ID
from skymark.rundir.layout import RUN_FILE, cell_of, new_run_id


@pytest.mark.parametrize(
    "path",
    [
        "records/PC-1.small.depth-50.grain@0.2.17.json",
        "samples/CV-1.small.numpy.parquet",
        "logs/IO-1.small.source-http.hf-datasets.log",
        "rounds/TAB-1.small.numpy/12.json",
        "manifest.json",
        "SHA256SUMS",
    ],
)
def test_the_paths_of_a_run_are_known(path):
    assert RUN_FILE.fullmatch(path)


@pytest.mark.parametrize(
    ("path", "cell"),
    [
        ("manifest.json", ""),
        ("records/PC-1.small.depth-0.5.own.json", "PC-1.small.depth-0.5.own"),
        ("samples/CV-1.small.numpy.parquet", "CV-1.small.numpy"),
        ("rounds/CV-1.small.numpy/12.json", "CV-1.small.numpy"),
    ],
)
def test_a_file_tells_its_cell(path, cell):
    assert cell_of(path) == cell


NOW = datetime(2026, 11, 21, 20, 29, 19, tzinfo=UTC)


def test_runs_that_begin_in_the_same_second_have_names_of_their_own():
    ids = {new_run_id("some/where/mine.toml", NOW) for _ in range(50)}
    assert len(ids) == 50
    assert all(id.startswith("20261121-202919-mine-") for id in ids)


@pytest.mark.parametrize("profile", ["../../etc", "a/../../b", "..", "x" * 300, "a b\n"])
def test_a_runs_name_is_one_directory_whatever_the_profile_is_called(profile):
    assert RUN_ID.fullmatch(new_run_id(profile, NOW))
