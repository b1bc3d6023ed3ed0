"""How long a plan takes, worked out by hand."""

from __future__ import annotations

from datetime import timedelta

import pytest

from skymark.cloud.cost.duration import (
    DATA_PER_ADAPTER,
    DATA_PER_SCENARIO,
    EXPECTED_START_S,
    HIGH_START_S,
    Duration,
    duration_of,
    ending,
)
from skymark.cloud.cost.history import past_run
from tests.unit.cloud.cost.conftest import BEGIN, EFFORT, cell, manifest, plan, record, span


def without_data(duration: Duration, scenarios: int, conversions: int):
    low, expected, high = (
        getattr(DATA_PER_SCENARIO, name) * scenarios + getattr(DATA_PER_ADAPTER, name) * conversions
        for name in ("low_s", "expected_s", "high_s")
    )
    running = duration.running
    return running.low_s - low, running.expected_s - expected, running.high_s - high


def past(cells, created_at=BEGIN, profile="cpu", effort=EFFORT, round_s=3.0):
    """A run of two interleaved rounds of cells of one adapter, 3 s each."""
    count = len(cells)
    records = [
        record(one, [round_s * number, round_s * (number + count)], end_s=round_s * count * 2)
        for number, one in enumerate(cells)
    ]
    return past_run(manifest(plan(cells, profile, effort), created_at), records)


def test_without_history_a_plan_takes_what_its_bounds_say():
    found = duration_of(plan([cell()]))
    low, expected, high = without_data(found, 1, 1)
    assert low == pytest.approx(2 * 1.0)  # the fewest rounds, each of the shortest time
    assert expected == pytest.approx(3 * (2 * 1.0 + 0.300) + 3 * EXPECTED_START_S)
    assert high == pytest.approx(4 * 100.0 + 4 * HIGH_START_S)  # the most rounds, each to its limit
    assert (found.cells, found.known_cells) == (1, 0)


def test_earlier_runs_of_the_same_cells_tell_their_time():
    cells = [cell("CV-1"), cell("CV-2")]
    found = duration_of(plan(cells), [past(cells)])
    _, expected, _ = without_data(found, 2, 2)
    assert expected == pytest.approx(4 * 3.0)  # two cells, two rounds
    assert found.known_cells == 2


def test_another_version_of_a_cell_tells_nothing():
    found = duration_of(plan([cell(elements=301)]), [past([cell(elements=300)])])
    assert found.known_cells == 0


def test_a_machine_of_the_same_profile_tells_more_than_another():
    mine = past([cell()], round_s=3.0)
    other = past([cell()], profile="tpu_v5e", round_s=9.0, created_at=BEGIN + timedelta(days=1))
    for history in ([mine, other], [other, mine]):
        assert without_data(duration_of(plan([cell()]), history), 1, 1)[1] == pytest.approx(6.0)
    same, foreign = (duration_of(plan([cell()]), [one]).running for one in (mine, other))
    assert foreign.high_s / foreign.expected_s > same.high_s / same.expected_s


def test_the_latest_of_equally_good_runs_counts():
    old = past([cell()], round_s=3.0)
    new = past([cell()], round_s=5.0, created_at=BEGIN + timedelta(days=1))
    found = duration_of(plan([cell()]), [new, old])
    assert without_data(found, 1, 1)[1] == pytest.approx(10.0)


def test_rounds_that_are_to_be_longer_are_counted_longer():
    longer = EFFORT.model_copy(update={"min_seconds": 2.5})
    found = duration_of(plan([cell()], effort=longer), [past([cell()])])
    assert without_data(found, 1, 1)[1] == pytest.approx(2 * (3.0 + 1.5))


def test_a_remembered_round_is_never_longer_than_its_limit():
    short = EFFORT.model_copy(update={"cell_timeout_s": 4.0})
    cells = [cell("CV-1"), cell("CV-2")]
    found = duration_of(plan(cells, effort=short), [past(cells, effort=short)])
    assert without_data(found, 2, 2)[2] == pytest.approx(2 * 4 * 4.0)  # not 3 s × the factor


def test_two_nodes_take_as_long_as_the_slower_of_them():
    cells = [cell("CV-1"), cell("CV-2"), cell("CV-3")]
    one, two = (duration_of(plan(cells), num_nodes=nodes).running for nodes in (1, 2))
    assert one.expected_s / 2 < two.expected_s < one.expected_s


def test_more_nodes_than_scenarios_are_no_faster():
    cells = [cell("CV-1")]
    assert duration_of(plan(cells), num_nodes=5).running == duration_of(plan(cells)).running


def test_at_worst_nobody_ends_the_machine_and_its_idle_minutes_are_paid_for():
    one, ten = (duration_of(plan([cell()]), idle_minutes=minutes).ending for minutes in (1, 10))
    assert one.high_s == 60 + 60 + 60  # to write down what there is, idle, until it is looked at
    assert ten.high_s == one.high_s + 9 * 60
    assert (ten.low_s, ten.expected_s) == (one.low_s, one.expected_s)
    assert duration_of(plan([cell()])).ending == ending(10)


def test_a_deadline_limits_set_up_and_run_but_not_what_is_around_them():
    duration = Duration(
        provisioning=span(1, 2, 3),
        set_up=span(10, 20, 30),
        running=span(100, 200, 300),
        ending=span(4, 5, 6),
        cells=1,
        known_cells=0,
    )
    assert duration.billed() == span(115, 227, 339)
    assert duration.billed(150) == span(115, 157, 159)
    assert duration.fits(220)
    assert not duration.fits(219)
    assert duration.fits(None)
