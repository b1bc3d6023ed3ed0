"""The time of a plan, worked out by hand."""

from __future__ import annotations

from datetime import timedelta

import pytest

from skymark.api import expected_time
from skymark.execute.duration import (
    ASKING,
    EXPECTED_FORK_S,
    EXPECTED_SHARE_OF_LIMIT,
    EXPECTED_START_S,
    HIGH_START_S,
    require_time,
    run_time,
)
from skymark.execute.partition.shard import Shard
from skymark.model.effort import Allotment
from skymark.model.errors import UsageError
from skymark.model.record import Cause, Status
from skymark.rundir.history import past_run
from tests.unit.rundir.past_runs import BEGIN, EFFORT, GUESS, cell, manifest, plan, record


def past(cells, created_at=BEGIN, profile="cpu", effort=EFFORT, round_s=3.0):
    """A run of two interleaved rounds of cells of one adapter, 3 s each."""
    count = len(cells)
    records = [
        record(one, [round_s * number, round_s * (number + count)], end_s=round_s * count * 2)
        for number, one in enumerate(cells)
    ]
    return past_run(manifest(plan(cells, profile, effort), created_at), records)


def expected_s(plan, *history):
    return run_time(plan, history).measuring.expected_s


def test_without_history_a_plan_takes_what_its_suite_guesses():
    found = run_time(plan([cell()]))
    assert found.measuring.low_s == pytest.approx(2 * GUESS.low_s)  # the fewest rounds
    starts_s = EXPECTED_START_S + 2 * EXPECTED_FORK_S  # an import, and two forks of its process
    assert found.measuring.expected_s == pytest.approx(3 * GUESS.expected_s + starts_s)
    assert found.measuring.high_s == pytest.approx(4 * (GUESS.high_s + HIGH_START_S))
    assert (found.cells, found.known_cells) == (1, 0)


def test_an_adapter_s_library_is_imported_once_though_its_cells_have_processes_of_their_own():
    one = plan([cell("CV-1")])
    two = plan([cell("CV-1"), cell("CV-2")])
    apart = two.model_copy(
        update={"cells": tuple(c.model_copy(update={"group": c.cell.id}) for c in two.cells)}
    )
    more_s = expected_s(apart) - expected_s(one)
    assert more_s == pytest.approx(3 * (GUESS.expected_s + EXPECTED_FORK_S))


def test_libraries_are_asked_for_an_accelerator_before_anything_is_measured():
    here = plan([cell()])
    there = here.model_copy(update={"platform": "gpu"})
    asked = run_time(there).preparing.expected_s - run_time(here).preparing.expected_s
    assert asked == pytest.approx(ASKING.expected_s)


def test_in_pairs_each_side_counts_and_each_round_starts_a_process():
    cells = [cell("CV-1"), cell("CV-2")]
    alone, pairs = (run_time(plan(cells), in_pairs=one) for one in (False, True))
    assert pairs.preparing == alone.preparing
    rounds_s = 2 * 3 * GUESS.expected_s
    starts_s = EXPECTED_START_S + 2 * EXPECTED_FORK_S
    assert alone.measuring.expected_s == pytest.approx(rounds_s + starts_s)
    assert pairs.measuring.expected_s == pytest.approx(2 * (rounds_s + 2 * 3 * EXPECTED_START_S))


def test_without_a_guess_only_the_time_limit_bounds_a_round():
    found = run_time(plan([cell()], guess=None)).measuring
    limit_s = EFFORT.cell_timeout_s
    assert found.low_s == 0
    starts_s = EXPECTED_START_S + 2 * EXPECTED_FORK_S
    assert found.expected_s == pytest.approx(3 * EXPECTED_SHARE_OF_LIMIT * limit_s + starts_s)
    assert found.high_s == pytest.approx(4 * (limit_s + HIGH_START_S))


def test_data_is_made_once_for_each_size_and_converted_for_each_adapter():
    one = run_time(plan([cell("CV-1")])).preparing
    two = run_time(plan([cell("CV-1"), cell("CV-1", "grain")])).preparing
    both = run_time(plan([cell("CV-1"), cell("CV-2")])).preparing
    assert one.expected_s < two.expected_s < both.expected_s == pytest.approx(2 * one.expected_s)


def test_earlier_runs_of_the_same_cells_tell_their_time():
    cells = [cell("CV-1"), cell("CV-2")]
    found = run_time(plan(cells), [past(cells)])
    assert found.measuring.expected_s == pytest.approx(4 * 3.0)  # two cells, two rounds
    assert found.known_cells == 2


def test_another_version_of_a_cell_tells_nothing():
    found = run_time(plan([cell(elements=301)]), [past([cell(elements=300)])])
    assert found.known_cells == 0


def test_a_machine_of_the_same_profile_tells_more_than_another():
    mine = past([cell()], round_s=3.0)
    other = past([cell()], profile="tpu_v5e", round_s=9.0, created_at=BEGIN + timedelta(days=1))
    for history in ([mine, other], [other, mine]):
        assert expected_s(plan([cell()]), *history) == pytest.approx(6.0)
    same, foreign = (run_time(plan([cell()]), [one]).measuring for one in (mine, other))
    assert foreign.high_s / foreign.expected_s > same.high_s / same.expected_s


def test_the_latest_of_equally_good_runs_counts():
    old = past([cell()], round_s=3.0)
    new = past([cell()], round_s=5.0, created_at=BEGIN + timedelta(days=1))
    assert expected_s(plan([cell()]), new, old) == pytest.approx(10.0)


def test_a_run_of_the_same_effort_tells_more_than_a_later_one_of_another():
    longer = EFFORT.model_copy(update={"limits": {"elements": 900}})
    same = past([cell()], round_s=3.0)
    other = past([cell()], effort=longer, round_s=9.0, created_at=BEGIN + timedelta(days=1))
    assert expected_s(plan([cell()]), other, same) == pytest.approx(6.0)


def test_rounds_that_are_to_be_longer_are_counted_longer():
    longer = GUESS.model_copy(update={"low_s": 2.5})
    found = run_time(plan([cell()], guess=longer), [past([cell()])]).measuring
    assert found.expected_s == pytest.approx(2 * (3.0 + 1.5))


def test_a_remembered_round_is_never_longer_than_its_limit():
    short = EFFORT.model_copy(update={"cell_timeout_s": 4.0})
    cells = [cell("CV-1"), cell("CV-2")]
    found = run_time(plan(cells, effort=short), [past(cells, effort=short)]).measuring
    assert found.high_s == pytest.approx(2 * 4 * 4.0)  # not 3 s × the factor


def test_a_shard_takes_its_own_cells_time(tmp_path):
    whole = plan([cell("CV-1"), cell("CV-2"), cell("CV-3")])
    shares = [expected_time(whole, Shard.of(index, 2), history=tmp_path) for index in (0, 1)]
    assert [share.cells for share in shares] == [2, 1]
    assert shares[1].measuring.expected_s < run_time(whole).measuring.expected_s


def test_a_shard_s_time_is_of_the_cells_that_it_takes_also_where_some_cannot_run(tmp_path):
    """A part is taken of all cells; those that cannot run must not move the others."""
    whole = plan([cell("CV-1"), cell("CV-1", "grain"), cell("CV-2"), cell("CV-3")])
    refused = (Status.SKIPPED, Cause(kind="absent", message="not here"))
    first, *rest = whole.cells
    some = whole.model_copy(
        update={"cells": (first.model_copy(update={"refusal": refused}), *rest)}
    )
    shares = []
    for number in (0, 1):
        taken = Shard.of(number, 2).take(some.cells)
        runnable = [one for one in taken if one.refusal is None]
        time = expected_time(some, Shard.of(number, 2), history=tmp_path)
        assert time.cells == len(runnable)
        shares.append(time.cells)
    assert sum(shares) == 3


def test_a_time_is_what_the_rounds_are_expected_to_take_and_the_most():
    timed = plan([cell()]).model_copy(update={"allotment": Allotment(time_s=600)})
    found = run_time(timed)
    assert found.measuring.low_s == pytest.approx(3 * GUESS.low_s)
    assert (found.measuring.expected_s, found.measuring.high_s) == (600, 600)
    assert found.whole.high_s == pytest.approx(found.preparing.high_s + 600)
    short = timed.model_copy(update={"allotment": Allotment(time_s=1)})
    assert run_time(short).measuring.low_s == 1


def test_a_time_that_cannot_hold_the_least_rounds_is_refused():
    timed = plan([cell()]).model_copy(update={"allotment": Allotment(time_s=2.9)})
    with pytest.raises(UsageError, match=r"2\.9 s .*\b3 rounds\b.*\b1 cell\b.* 3 s"):
        require_time(timed, run_time(timed))
    enough = timed.model_copy(update={"allotment": Allotment(time_s=3)})
    require_time(enough, run_time(enough))
    require_time(plan([cell()]), run_time(plan([cell()])))
