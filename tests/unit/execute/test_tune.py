"""A tune: its candidates, the order among them, its rungs, and how it goes on."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from skymark.execute.tune import (
    FINALISTS,
    REDUCTION,
    Rung,
    candidates_of,
    measure_rungs,
    rungs_of,
)
from skymark.model.errors import UsageError
from skymark.model.metric import Figure, Metric
from skymark.model.record import Status
from tests.scripted_suite import cell_of, plan_of, planned_cell
from tests.unit.execute.tuning import EFFORTS, ORDER, Runs, candidates_with, record_of

PLACE = Path("tune")
LENGTHS = ["shortest", "short", "long", "longest"]
"""Stand for efforts."""


def tuned_with(runs, values=range(1, 11)):
    candidates = candidates_of(candidates_with(workers=values))
    return measure_rungs(candidates, EFFORTS, ORDER, PLACE, runs, ["workers"])


def cost_of(cell):
    """The more workers the cheaper; of equal ones b is."""
    return 100.0 - 5 * cell.axes["workers"] - (cell.adapter == "b")


def test_candidates_of_one_adapter_are_told_apart_by_their_settings():
    plan = candidates_of(candidates_with(workers=(1, 2)))
    assert [one.cell.id for one in plan.cells] == [
        "scripted.S-1.small.workers-1.a",
        "scripted.S-1.small.workers-1.b",
        "scripted.S-1.small.workers-2.a",
        "scripted.S-1.small.workers-2.b",
    ]
    assert [one.cell.settings["workers"] for one in plan.cells] == [1, 1, 2, 2]
    assert {one.group for one in plan.cells} == {"a", "b"}


def test_a_process_of_its_own_stays_its_own():
    cell = cell_of("a")
    plan = plan_of(planned_cell(cell, group=f"a {cell.id}"))
    found = candidates_of([({"workers": value}, plan) for value in (1, 2)])
    assert len({one.group for one in found.cells}) == 2


def test_candidates_are_of_one_scenario():
    plan = plan_of(cell_of("a"), cell_of("a", "S-2"))
    with pytest.raises(UsageError, match="S-1:small, S-2:small"):
        candidates_of([({"workers": 1}, plan)])
    with pytest.raises(UsageError, match="nothing to choose"):
        candidates_of([])


def test_each_rung_measures_the_best_third_of_the_one_before_and_longer():
    runs = Runs(cost_of)
    found = tuned_with(runs)
    assert [len(one.plan.cells) for one in found.rungs] == [20, 7, 3]
    assert [one.plan.effort.min_rounds for one in found.rungs] == [1, 2, 4]
    assert found.chosen is not None
    assert found.chosen.cell.id == "scripted.S-1.small.workers-10.b"
    assert found.point(found.chosen) == {"workers": 10}
    ranking = [(rung, one.cell.adapter, one.cell.axes["workers"]) for rung, one in found.ranking]
    assert ranking[:4] == [(3, "b", 10), (3, "a", 10), (3, "b", 9), (2, "a", 9)]
    assert len(ranking) == 20


def test_an_interrupted_tune_goes_on_with_the_same_candidates_and_measures_none_again():
    whole = tuned_with(Runs(cost_of))
    runs = Runs(cost_of, stop_at="rung-2")
    with pytest.raises(KeyboardInterrupt):
        tuned_with(runs)
    before = list(runs.measured)
    runs.stop_at = None
    resumed = tuned_with(runs)
    assert resumed.ranking == whole.ranking
    assert runs.measured[: len(before)] == before
    assert len(set(runs.measured)) == len(runs.measured) == 20 + 7 + 3


def test_a_candidate_that_cannot_be_run_has_its_record_and_no_place():
    refused = cell_of("a", workers=1)
    plan = plan_of(cell_of("b", workers=1), refused, refused=[refused])

    def run(plan, place):
        records = [
            record_of(
                one.cell, 1.0, 1.0, status=Status.OK if one.refusal is None else Status.FAILED
            )
            for one in plan.cells
        ]
        return Rung(plan, place, tuple(records))

    found = measure_rungs(
        candidates_of([({"workers": 1}, plan)]), EFFORTS, ORDER, PLACE, run, ["workers"]
    )
    assert [one.cell.adapter for _, one in found.ranking] == ["b", "a"]
    assert found.chosen is found.ranking[0][1]


def test_where_nothing_could_be_measured_nothing_is_chosen():
    def run(plan, place):
        records = [record_of(one.cell, 1.0, 1.0, status=Status.FAILED) for one in plan.cells]
        return Rung(plan, place, tuple(records))

    found = tuned_with(run)
    assert found.chosen is None
    assert found.rivals == ()
    assert len(found.rungs) == 1


# Rungs


@pytest.mark.parametrize("seed", range(40))
def test_without_noise_the_best_candidate_survives_and_no_more_is_measured_than_planned(seed):
    random = Random(seed)
    values = range(random.randint(1, 60))
    costs = {(adapter, value): random.random() for value in values for adapter in "ab"}
    runs = Runs(lambda cell: costs[cell.adapter, cell.axes["workers"]])
    found = tuned_with(runs, values)
    assert found.chosen is not None
    best = min(costs, key=costs.__getitem__)
    assert (found.chosen.cell.adapter, found.chosen.cell.axes["workers"]) == best
    sizes = [size for size, _ in rungs_of(2 * len(values), EFFORTS)]
    assert [len(rung.plan.cells) for rung in found.rungs] == sizes


def test_of_equal_candidates_the_earlier_goes_on():
    found = tuned_with(Runs(lambda _: 1.0), range(1, 5))
    assert [one.cell.id for one in found.rungs[1].plan.cells] == [
        one.cell.id for one in found.rungs[0].plan.cells[:3]
    ]


@pytest.mark.parametrize("count", range(1, 200, 7))
def test_rungs_shrink_by_a_third_until_few_are_left(count):
    sizes = [size for size, _ in rungs_of(count, LENGTHS)]
    assert sizes[0] == count
    assert len(sizes) <= 4
    for before, after in pairwise(sizes):
        assert after * REDUCTION >= before > FINALISTS
        assert (after - 1) * REDUCTION < before
    assert sizes[-1] <= FINALISTS or len(sizes) == 4


def test_few_candidates_get_the_longest_rounds_at_once():
    assert rungs_of(3, LENGTHS) == [(3, LENGTHS[3])]
    assert [effort for _, effort in rungs_of(27, LENGTHS)] == [LENGTHS[0], LENGTHS[1], LENGTHS[3]]
    assert [effort for _, effort in rungs_of(81, LENGTHS)] == LENGTHS


def test_with_the_usual_lengths_27_candidates_take_less_than_a_fifth_of_an_exhaustive_sweep():
    seconds = dict(zip(LENGTHS, (1 * 1, 1 * 2, 2 * 4, 5 * 8), strict=True))
    for count in range(27, 300):
        tuned = sum(size * seconds[effort] for size, effort in rungs_of(count, LENGTHS))
        assert tuned <= count * seconds[LENGTHS[-1]] / 5


# The order

A, B = cell_of("a"), cell_of("b")


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param((0.96, 2.0), (0.99, 3.0), id="of those that reach the target the cheapest"),
        pytest.param((0.95, 9.0), (0.94, 1.0), id="who reaches it before whoever does not"),
    ],
)
def test_the_choice(better, worse):
    assert ORDER.place(record_of(A, *better)) < ORDER.place(record_of(B, *worse))


def test_where_none_reaches_the_target_the_fastest_is_chosen_whatever_it_costs():
    fast = record_of(A, 0.6, 9.0, rates=(120.0, 121.0))
    slow = record_of(B, 0.7, 1.0, rates=(100.0, 101.0))
    assert ORDER.place(fast) < ORDER.place(slow)


def test_what_did_not_end_well_has_no_place():
    assert ORDER.place(record_of(A, 1.0, 1.0, status=Status.INVALID)) is None


def test_the_rate_that_is_needed_is_each_round_s_over_its_share():
    record = record_of(A, 0.5, 1.0, rates=(100.0, 102.0, 400.0))
    assert ORDER.needed_rate(record) == 204.0


def test_finalists_that_rounds_do_not_tell_apart_are_rivals():
    def cost(cell):
        return {("a", 1): 10.0, ("b", 1): 10.1, ("a", 2): 20.0}.get(
            (cell.adapter, cell.axes["workers"]), 30.0
        )

    found = tuned_with(Runs(cost))
    assert [one.cell.adapter for one in found.rivals] == ["b"]


def test_candidates_of_two_kinds_are_compared_by_what_all_have():
    cells = [cell_of(adapter, workers=2) for adapter in "ab"]
    whole, part = record_of(cells[0], 0.99, 5.0), record_of(cells[1], 0.5, 1.0)
    others = {"epoch_share": Figure(value=0.97), "epochs_per_s": Figure(value=90.0)}
    whole = whole.model_copy(update={"metrics": {**whole.metrics, **others}})
    part = part.model_copy(update={"metrics": {"cost_s": part.metrics["cost_s"], **others}})
    declared = [Metric(name=name, heading=name, better="higher") for name in others]
    order = dataclasses.replace(ORDER, stand_ins=tuple(declared))
    assert order.among([whole]) is order
    assert order.place(part) is None
    both = order.among([whole, part])
    assert (both.goal.name, both.rate.name) == ("epoch_share", "epochs_per_s")
    assert both.place(part) < both.place(whole)
    assert both.among([whole]) is both


def test_a_candidate_that_failed_changes_no_rule():
    failed = record_of(cell_of("a"), 1.0, 1.0, status=Status.FAILED)
    order = dataclasses.replace(ORDER, stand_ins=(ORDER.goal, ORDER.cost))
    assert order.among([failed]) is order
