"""A plan is split so that every cell is taken exactly once and comparable cells stay together."""

from __future__ import annotations

import pytest

from skymark.execute.partition.shard import Shard, items_of, name_of, reasons, worker_parts
from skymark.execute.partition.split import Split
from skymark.model.duration import Span
from skymark.model.errors import UsageError
from skymark.model.record import Cause, Status
from tests.scripted_suite import cell_of, planned_cell

CELLS = [
    planned_cell(cell_of(adapter, f"S-{number}"), shard_key=f"work {number}")
    for number in range(7)
    for adapter in ("numpy", "grain", "pytorch")[: 1 + number % 3]
]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_every_cell_is_taken_exactly_once(count):
    parts = [Shard.of(index, count).take(CELLS) for index in range(count)]
    taken = [planned.cell.id for part in parts for planned in part]
    assert sorted(taken) == sorted(planned.cell.id for planned in CELLS)


@pytest.mark.parametrize("count", [2, 3])
def test_cells_that_are_compared_stay_on_one_machine(count):
    parts = [Shard.of(index, count).take(CELLS) for index in range(count)]
    keys = [key for part in parts for key in {planned.shard_key for planned in part}]
    assert len(keys) == len(set(keys)) == 7


def test_the_suite_alone_says_which_cells_stay_together():
    """Cells of one scenario, but of keys of their own, are spread; those of one key are not."""
    cells = [cell_of(adapter) for adapter in "abcd"]
    apart = [planned_cell(cell, shard_key=cell.id) for cell in cells]
    together = [planned_cell(cell, shard_key="one dataset") for cell in cells]
    assert [len(Shard.of(index, 2).take(apart)) for index in range(2)] == [2, 2]
    assert [len(Shard.of(index, 2).take(together)) for index in range(2)] == [4, 0]


def test_machines_get_about_the_same_number_of_cells():
    sizes = [len(Shard.of(index, 2).take(CELLS)) for index in range(2)]
    assert abs(sizes[0] - sizes[1]) <= 1


def test_a_part_keeps_the_order_of_the_plan():
    taken = Shard.of(0, 2).take(CELLS)
    assert list(taken) == [planned for planned in CELLS if planned in taken]


def test_a_shard_is_read_from_text():
    assert Shard.parse("1/2") == Shard.of(1, 2)


@pytest.mark.parametrize("text", ["2/2", "-1/2", "1", "a/b", "0/0", "1/2/3", ""])
def test_what_names_no_part_is_refused(text):
    with pytest.raises(UsageError, match="INDEX/COUNT"):
        Shard.parse(text)


def planned(seconds, **named):
    """Cells with keys of their own that take so long."""
    return [
        planned_cell(
            cell_of("numpy", f"S-{number}"),
            shard_key=f"work {number}",
            guess=None if one is None else Span(low_s=one, expected_s=one, high_s=one),
            **named,
        )
        for number, one in enumerate(seconds)
    ]


def test_a_split_by_time_takes_the_plan_s_times():
    cells = planned([8.0, 1.0, 1.0, 1.0, 5.0])
    shard = Shard(split=Split.alike("longest", 2), number=0)
    assert [one.shard_key for one in shard.take(cells)] == ["work 0"]


def test_where_a_time_is_not_known_all_cells_weigh_the_same():
    cells = planned([8.0, None, 1.0, 1.0])
    sizes = [
        len(Shard(split=Split.alike("longest", 2), number=number).take(cells)) for number in (0, 1)
    ]
    assert sizes == [2, 2]
    (said,) = [
        one for one in reasons(Split.alike("longest", 2), items_of(cells)) if "is unknown" in one
    ]
    assert "work 1" in said


def test_a_cell_that_cannot_run_moves_no_other_to_another_worker():
    """Machines may differ in what they can run; their parts must not."""
    cells = planned([1.0] * 7)
    refused = (Status.SKIPPED, Cause(kind="absent", message="not here"))
    other = [
        one.model_copy(update={"refusal": refused}) if number % 3 else one
        for number, one in enumerate(cells)
    ]
    for split in (Split.alike("even", 3), Split.alike("longest", 3), Split.alike("balanced", 3)):
        for number in range(3):
            shard = Shard(split=split, number=number)
            taken = [[one.shard_key for one in shard.take(given)] for given in (cells, other)]
            assert taken[0] == taken[1]


def test_the_reasons_say_how_far_from_ideal_a_split_is():
    cells = planned([3.0, 3.0, 2.0, 2.0, 2.0])
    said = "\n".join(reasons(Split.alike("longest", 2), items_of(cells)))
    assert "16.7 % more" in said
    assert "longest items first" in said


def test_workers_without_work_are_counted():
    said = "\n".join(reasons(Split.alike("even", 5), items_of(planned([1.0] * 3))))
    assert "2 of 5" in said


def test_a_worker_s_part_has_its_items_keys_and_time():
    first, second = worker_parts(Split.alike("even", 2), items_of(planned([1.0, 2.0, 3.0])))
    assert (first.span, first.keys, first.cells, first.expected_s) == ("1", ("work 0",), 1, 1.0)
    assert (second.span, second.expected_s) == ("2–3", 5.0)
    assert name_of(second.part.place, Split.alike("even", 2)) == "worker-1"
