"""Files of class names, for each data set."""

from __future__ import annotations

import json

import pytest

from skymark.model.errors import ChangedSincePlanError, DataError
from skymark.suites.clip.reading.user_files import Naming

CONTENT = {"vtab/pets": ["gatto", "cane"], "wds/mine": ["uno"]}


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "names.json"
        path.write_text(json.dumps(content))
        return path

    return write


def test_names_are_those_of_the_data_set_in_order(write):
    file = Naming(write(CONTENT)).entry_for("wds/vtab/pets")
    assert file.entry == "vtab/pets"
    assert Naming.read_again(file).names(file.entry, 2) == ("gatto", "cane")


@pytest.mark.parametrize("count", [1, 3])
def test_another_number_of_names_than_of_classes_is_refused(write, count):
    file = Naming(write(CONTENT)).entry_for("vtab/pets")
    with pytest.raises(DataError, match=rf" 2 .*vtab/pets.* {count} class"):
        Naming.read_again(file).names(file.entry, count)


def test_a_class_of_the_peer_s_own_files_has_an_empty_name(write):
    assert Naming(write({"clevr": ["near", "", "far"]})).names("clevr", 3) == ("near", "", "far")


def test_a_file_that_changed_since_the_plan_is_refused(write):
    file = Naming(write(CONTENT)).entry_for("wds/mine")
    write({"wds/mine": ["due"]})
    with pytest.raises(ChangedSincePlanError, match=r"names\.json"):
        Naming.read_again(file).names(file.entry, 1)


def test_a_data_set_without_an_entry_is_not_scored_with_those_of_another(write):
    with pytest.raises(DataError, match=r"wds/cars.* vtab/pets, wds/mine"):
        Naming(write(CONTENT)).entry_for("wds/cars")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"0": "cat"}, "no list .*mine"),
        ([], "no list .*mine"),
        ("cat", "no list .*mine"),
        (["cat", 1], "mine .*no texts"),
        (["cat", " "], "mine .*no texts"),
    ],
)
def test_another_format_is_refused(write, names, message):
    with pytest.raises(DataError, match=message):
        Naming(write({"mine": names})).entry_for("mine")


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"class names .*none\.json"):
        Naming(tmp_path / "none.json")
