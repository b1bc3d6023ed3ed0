"""The time that rented machines are paid for, worked out by hand."""

from __future__ import annotations

import pytest

from skymark.cloud.cost.billed_time import BilledTime, billed_time, ending
from skymark.execute.duration import run_time
from tests.unit.cloud.cost.conftest import span
from tests.unit.run.past_runs import cell, plan


def test_data_and_rounds_are_paid_for():
    one = plan([cell()])
    found = billed_time(one)
    assert found.running == run_time(one).whole
    assert (found.cells, found.known_cells) == (1, 0)


def test_two_nodes_take_as_long_as_the_slower_of_them():
    cells = [cell("CV-1"), cell("CV-2"), cell("CV-3")]
    one, two = (billed_time(plan(cells), num_nodes=nodes).running for nodes in (1, 2))
    assert one.expected_s / 2 < two.expected_s < one.expected_s


def test_more_nodes_than_scenarios_are_no_faster():
    cells = [cell("CV-1")]
    assert billed_time(plan(cells), num_nodes=5).running == billed_time(plan(cells)).running


def test_at_worst_nobody_ends_the_machine_and_its_idle_minutes_are_paid_for():
    one, ten = (billed_time(plan([cell()]), idle_minutes=minutes).ending for minutes in (1, 10))
    assert one.high_s == 60 + 60 + 60  # to write down what there is, idle, until it is looked at
    assert ten.high_s == one.high_s + 9 * 60
    assert (ten.low_s, ten.expected_s) == (one.low_s, one.expected_s)
    assert billed_time(plan([cell()])).ending == ending(10)


def test_a_deadline_limits_set_up_and_run_but_not_what_is_around_them():
    time = BilledTime(
        provisioning=span(1, 2, 3),
        set_up=span(10, 20, 30),
        running=span(100, 200, 300),
        ending=span(4, 5, 6),
        cells=1,
        known_cells=0,
    )
    assert time.whole() == span(115, 227, 339)
    assert time.whole(150) == span(115, 157, 159)
    assert time.fits(220)
    assert not time.fits(219)
    assert time.fits(None)


def test_a_plan_s_cells_are_counted_once_on_several_nodes():
    cells = [cell("CV-1"), cell("CV-2"), cell("CV-3")]
    assert billed_time(plan(cells), num_nodes=2).cells == pytest.approx(3)
