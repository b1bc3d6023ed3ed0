"""A cell's name and hash: records are reused by them, so they must not change by accident."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from skymark.model.record import Cell

CELL = Cell(
    suite="loading",
    scenario="PC-1",
    variant="small",
    adapter="grain",
    axes={"depth": 50},
    settings={"workers": 2, "format": "parquet", "think_time_ms": 0.5},
    specification={"seed": 7, "scenario_version": 1, "size": {"elements": 100}},
)


def test_the_id_is_readable_and_the_hash_is_what_it_was_in_the_first_release():
    assert CELL.id == "loading.PC-1.small.depth-50.grain"
    assert CELL.hash == "8e5e3398ab89c4bc375449a7e6049b29354f75f39db04cc11219c4cfec96704d"


def test_the_hash_survives_the_way_to_a_worker_and_back():
    assert Cell.model_validate_json(CELL.model_dump_json()).hash == CELL.hash
    assert Cell.model_validate(CELL.model_dump(mode="json")) == CELL


def test_the_order_of_settings_does_not_change_the_hash():
    turned = dict(reversed(CELL.settings.items()))
    assert CELL.model_copy(update={"settings": turned}).hash == CELL.hash


@pytest.mark.parametrize(
    "changed",
    [
        {"settings": {**CELL.settings, "workers": 3}},
        {"settings": {**CELL.settings, "workers": 2.0}},
        {"axes": {"depth": 10}},
        {"adapter": "grain@0.2.17"},
        {"specification": {**CELL.specification, "seed": 8}},
        {"variant": "medium"},
        {"suite": "training"},
    ],
)
def test_whatever_decides_the_measurement_is_in_the_hash(changed):
    assert CELL.model_copy(update=changed).hash != CELL.hash


@pytest.mark.parametrize(
    ("fields", "id"),
    [
        ({"adapter": "grain@0.2.17"}, "loading.PC-1.small.depth-50.grain@0_2_17"),
        ({"adapter": "../../etc/passwd"}, "loading.PC-1.small.depth-50.______etc_passwd"),
        ({"suite": "my/own suite"}, "my_own_suite.PC-1.small.depth-50.grain"),
        ({"axes": {}}, "loading.PC-1.small.grain"),
        ({"axes": {"b": "x/y", "a": 1.5}}, "loading.PC-1.small.a-1_5.b-x_y.grain"),
    ],
)
def test_the_id_is_a_file_name_whatever_the_names(fields, id):
    assert CELL.model_copy(update=fields).id == id


def test_the_label_leaves_the_adapter_out():
    assert CELL.label == "PC-1:small depth=50"


def test_a_cell_cannot_be_changed_and_refuses_unknown_keys():
    with pytest.raises(ValidationError):
        CELL.adapter = "pytorch"
    with pytest.raises(ValidationError):
        Cell(suite="s", scenario="S", variant="v", adapter="a", sise=3)
