"""Imported data is kept by what it was when the run was planned."""

from __future__ import annotations

import pytest

from skymark.model.errors import ChangedSincePlanError
from skymark.model.plan import Selection
from skymark.suites.loading.storage import Storage
from skymark.suites.loading.suite import LoadingSuite
from skymark.suites.loading.tuning import EFFORTS


def planned(path):
    selection = Selection(scenarios=("NLP-1",), adapters=("numpy",), options={"data": str(path)})
    [cell] = LoadingSuite().plan(selection, EFFORTS["quick"])
    return cell.cell


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("some words\n" * 500)
    return path


def test_a_cell_with_real_data_has_its_size_and_fingerprint(text):
    cell = planned(text)
    assert cell.specification["data"] == str(text)
    assert cell.specification["size"]["elements"] == 22
    text.write_text("other words\n" * 500)
    assert planned(text).hash != cell.hash


def test_real_data_is_fetched_once_before_any_worker(text, tmp_path):
    said = []
    for _ in range(2):
        LoadingSuite().fetch([planned(text)], tmp_path / "cache", said.append)
    assert said == [f"importing {text} for NLP-1"]
    storage = Storage.of_cell(tmp_path / "cache", planned(text))
    assert storage.is_imported
    assert len(storage.dataset()) == 22
    assert LoadingSuite().unprepared([planned(text)], tmp_path / "cache") == []


def test_data_that_changed_since_planning_is_refused(text, tmp_path):
    cell = planned(text)
    text.write_text("other words\n" * 500)
    with pytest.raises(ChangedSincePlanError, match=str(text)):
        LoadingSuite().fetch([cell], tmp_path / "cache", print)


def test_synthetic_data_needs_no_fetching(tmp_path):
    selection = Selection(scenarios=("NLP-1",), adapters=("numpy",))
    [cell] = LoadingSuite().plan(selection, EFFORTS["quick"])
    LoadingSuite().fetch([cell.cell], tmp_path, pytest.fail)
    assert not Storage.of_cell(tmp_path, cell.cell).is_imported
