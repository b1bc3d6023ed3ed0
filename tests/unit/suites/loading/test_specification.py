"""What decides a cell's data and work, and where its adapter is found."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from skymark.model.record import Cell
from skymark.suites.loading.specification import LoadingSpecification, reference_of
from skymark.suites.loading.work import Size

SIZE = Size(elements=100, batch_size=10)


def cell_of(**fields):
    specification = LoadingSpecification(seed=7, size=SIZE, **fields)
    return Cell(
        suite="loading",
        scenario="TAB-1",
        variant="small",
        adapter="grain@0.2.17",
        specification=specification.json_content(),
    )


def test_a_specification_reads_back_from_its_cell_and_leaves_out_what_is_not_there():
    cell = cell_of(adapter_file="/a/my.py:Mine", adapter_digest="0" * 64)
    found = LoadingSpecification.of(cell)
    assert found == LoadingSpecification(
        seed=7, size=SIZE, adapter_file="/a/my.py:Mine", adapter_digest="0" * 64
    )
    assert {"data", "data_fingerprint"}.isdisjoint(cell.specification)


def test_the_reference_is_the_file_for_a_users_own_adapter():
    assert reference_of(cell_of()) == "grain@0.2.17"
    assert reference_of(cell_of(adapter_file="/a/my.py:Mine")) == "/a/my.py:Mine"


@pytest.mark.parametrize(
    ("fields", "files"),
    [
        ({}, []),
        ({"data": "hf://owner/name"}, []),
        ({"data": "photos"}, ["photos"]),
        ({"adapter_file": "own/my.py:Mine"}, ["own/my.py"]),
        ({"adapter_file": "own/my.py:Mine", "data": "photos"}, ["own/my.py", "photos"]),
    ],
)
def test_another_machine_needs_the_users_own_files_and_nothing_that_has_an_address(fields, files):
    assert LoadingSpecification.of(cell_of(**fields)).local_files == files


def test_a_cell_of_another_suite_has_no_such_specification():
    cell = Cell(suite="training", scenario="T-1", variant="small", adapter="jax")
    with pytest.raises(ValidationError, match="size"):
        LoadingSpecification.of(cell)
