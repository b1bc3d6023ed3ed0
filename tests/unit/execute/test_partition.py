"""A plan is split so that every cell is taken exactly once and comparable cells stay together."""

from __future__ import annotations

import pytest

from skymark.execute.partition import Shard
from skymark.model.errors import UsageError
from tests.unit.execute.conftest import cell_of, planned_cell

CELLS = [
    planned_cell(cell_of(adapter, f"S-{number}"), shard_key=f"work {number}")
    for number in range(7)
    for adapter in ("numpy", "grain", "pytorch")[: 1 + number % 3]
]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_every_cell_is_taken_exactly_once(count):
    parts = [Shard(index=index, count=count).take(CELLS) for index in range(count)]
    taken = [planned.cell.id for part in parts for planned in part]
    assert sorted(taken) == sorted(planned.cell.id for planned in CELLS)


@pytest.mark.parametrize("count", [2, 3])
def test_cells_that_are_compared_stay_on_one_machine(count):
    parts = [Shard(index=index, count=count).take(CELLS) for index in range(count)]
    keys = [key for part in parts for key in {planned.shard_key for planned in part}]
    assert len(keys) == len(set(keys)) == 7


def test_the_suite_alone_says_which_cells_stay_together():
    """Cells of one scenario, but of keys of their own, are spread; those of one key are not."""
    cells = [cell_of(adapter) for adapter in "abcd"]
    apart = [planned_cell(cell, shard_key=cell.id) for cell in cells]
    together = [planned_cell(cell, shard_key="one dataset") for cell in cells]
    assert [len(Shard(index=index, count=2).take(apart)) for index in range(2)] == [2, 2]
    assert [len(Shard(index=index, count=2).take(together)) for index in range(2)] == [4, 0]


def test_machines_get_about_the_same_number_of_cells():
    sizes = [len(Shard(index=index, count=2).take(CELLS)) for index in range(2)]
    assert abs(sizes[0] - sizes[1]) <= 1


def test_a_part_keeps_the_order_of_the_plan():
    taken = Shard(index=0, count=2).take(CELLS)
    assert list(taken) == [planned for planned in CELLS if planned in taken]


def test_a_shard_is_read_from_text():
    assert Shard.parse("1/2") == Shard(index=1, count=2)


@pytest.mark.parametrize("text", ["2/2", "-1/2", "1", "a/b", "0/0", "1/2/3", ""])
def test_what_names_no_part_is_refused(text):
    with pytest.raises(UsageError, match="INDEX/COUNT"):
        Shard.parse(text)
