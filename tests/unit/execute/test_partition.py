"""A plan is split so that every cell is taken exactly once and comparable cells stay together."""

from __future__ import annotations

import pytest

from skymark.execute.partition import Shard
from skymark.model.cell import Cell
from skymark.model.errors import UsageError

CELLS = [
    Cell(suite="loading", scenario=f"S-{number}", variant="small", adapter=adapter)
    for number in range(7)
    for adapter in ("numpy", "grain", "pytorch")[: 1 + number % 3]
]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_every_cell_is_taken_exactly_once(count):
    parts = [Shard(index=index, count=count).take(CELLS) for index in range(count)]
    assert sorted(cell.id for part in parts for cell in part) == sorted(cell.id for cell in CELLS)


@pytest.mark.parametrize("count", [2, 3])
def test_cells_that_are_compared_stay_on_one_machine(count):
    parts = [Shard(index=index, count=count).take(CELLS) for index in range(count)]
    labels = [label for part in parts for label in {cell.label for cell in part}]
    assert len(labels) == len(set(labels))


def test_machines_get_about_the_same_number_of_cells():
    sizes = [len(Shard(index=index, count=2).take(CELLS)) for index in range(2)]
    assert abs(sizes[0] - sizes[1]) <= 1


def test_a_part_keeps_the_order_of_the_plan():
    taken = Shard(index=0, count=2).take(CELLS)
    assert list(taken) == [cell for cell in CELLS if cell in taken]


def test_a_shard_is_read_from_text():
    assert Shard.parse("1/2") == Shard(index=1, count=2)


@pytest.mark.parametrize("text", ["2/2", "-1/2", "1", "a/b", "0/0", "1/2/3", ""])
def test_what_names_no_part_is_refused(text):
    with pytest.raises(UsageError, match="INDEX/COUNT"):
        Shard.parse(text)
