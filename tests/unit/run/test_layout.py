"""The paths of a run: which there are, and whose they are."""

from __future__ import annotations

import pytest

from skymark.run.layout import RUN_FILE, cell_of


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
