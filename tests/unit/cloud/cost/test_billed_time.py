"""The time that rented machines are paid for, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from skymark.cloud.cost.bill import (
    EACH_JOB,
    BilledTime,
    billed_time,
    ending,
    set_up_time,
    shared_time,
)
from skymark.cloud.rented_run import limits_of
from skymark.execute.duration import run_time
from skymark.execute.partition.split import Split
from skymark.execute.planner import load_profile, make_plan, profile_paths
from skymark.execute.venv_specs import MB, SMALL_BYTES, unpacked_bytes
from skymark.model.duration import NOTHING
from skymark.model.requests import Limits, Work
from skymark.model.venv import VenvSpec
from tests.unit.cloud.cost.conftest import span
from tests.unit.rundir.past_runs import cell, plan, planned

SET_UP = span(100, 200, 300)


def test_data_and_rounds_are_paid_for():
    one = plan([cell()])
    found = billed_time(one, SET_UP)
    assert found.running == run_time(one).whole
    assert found.work == SET_UP.plus(found.running)
    assert (found.cells, found.known_cells) == (1, 0)


def test_two_nodes_take_as_long_as_the_slower_of_them():
    cells = [cell("CV-1"), cell("CV-2"), cell("CV-3")]
    one, two = (
        billed_time(plan(cells), SET_UP, split=Split.alike("balanced", nodes)).running
        for nodes in (1, 2)
    )
    assert one.expected_s / 2 < two.expected_s < one.expected_s


def test_the_split_decides_which_machine_is_the_slowest():
    """Two large scenarios first: halves of neighbours put both on one machine."""
    sizes = {"CV-1": 100, "CV-2": 100, "CV-3": 1, "CV-4": 1}
    cells = tuple(planned(cell(name), span(size, size, size)) for name, size in sizes.items())
    whole = plan([]).model_copy(update={"cells": cells})
    even, longest = (
        billed_time(whole, SET_UP, split=Split.alike(kind, 2)).running
        for kind in ("even", "longest")
    )
    assert even.expected_s > 1.5 * longest.expected_s


def test_more_nodes_than_scenarios_are_no_faster():
    cells = [cell("CV-1")]
    assert (
        billed_time(plan(cells), SET_UP, split=Split.alike("balanced", 5)).running
        == billed_time(plan(cells), SET_UP).running
    )


def test_at_worst_nobody_ends_the_machine_and_its_idle_minutes_are_paid_for():
    one, ten = (
        billed_time(plan([cell()]), SET_UP, idle_minutes=minutes).ending for minutes in (1, 10)
    )
    assert one.high_s == 60 + 60 + 60  # to write down what there is, idle, until it is looked at
    assert ten.high_s == one.high_s + 9 * 60
    assert (ten.low_s, ten.expected_s) == (one.low_s, one.expected_s)
    assert billed_time(plan([cell()]), SET_UP).ending == ending(10)


def test_a_machine_that_stays_is_paid_for_until_its_idle_timer_ends_it():
    stays = billed_time(plan([cell()]), SET_UP, idle_minutes=30, stays=True).ending
    # The timer counts from its last look at the job, up to a minute before the job's end.
    assert stays.low_s == 29 * 60
    assert stays.low_s < stays.expected_s < 30 * 60
    assert stays.high_s == ending(30).high_s


def test_where_nothing_ran_the_idle_timer_counts_from_the_set_up():
    idle = ending(30, stays=True, runs=False)
    assert 30 * 60 == idle.low_s < idle.expected_s < 31 * 60 <= idle.high_s


def test_parts_on_machines_of_their_own_are_paid_for_until_each_is_done():
    sizes = {"CV-1": 300, "CV-2": 100, "CV-3": 100}
    cells = tuple(planned(cell(name), span(size, size, size)) for name, size in sizes.items())
    whole = plan([]).model_copy(update={"cells": cells})
    split = Split.alike("even", 3)
    together = billed_time(whole, SET_UP, split=split)
    apart = billed_time(whole, SET_UP, split=split, parts=(0, 1, 2))
    assert together.running == apart.running
    assert together.on_machines(3) == together.whole().times(3)
    assert apart.on_machines(3).expected_s < 0.7 * together.on_machines(3).expected_s
    rest = billed_time(whole, SET_UP, split=split, parts=(1, 2))
    assert rest.on_machines(2).expected_s < apart.on_machines(3).expected_s / 2 + 200


@pytest.mark.parametrize(("seconds", "share"), [((100,) * 16, 1 / 8), ((800, *(100,) * 7), 8 / 15)])
def test_workers_on_eight_gpus_take_groups_that_take_long_first(seconds, share):
    cells = tuple(
        planned(cell(f"CV-{number}"), span(one, one, one)).model_copy(update={"group": f"{number}"})
        for number, one in enumerate(seconds)
    )
    whole = plan([]).model_copy(update={"cells": cells})
    one, eight = (shared_time(whole, (), lanes).expected_s for lanes in (1, 8))
    assert one == pytest.approx(run_time(whole).whole.expected_s, rel=0.1)
    assert eight / one == pytest.approx(share, rel=0.1)


def test_workers_of_a_further_gpu_begin_once_their_job_is_submitted(monkeypatch):
    group = planned(cell("CV-1"), span(100, 100, 100))
    cells = tuple(group.model_copy(update={"group": f"{number}"}) for number in range(8))
    whole = plan([]).model_copy(update={"cells": cells})
    submitted = shared_time(whole, (), 8).expected_s
    monkeypatch.setattr("skymark.cloud.cost.bill.EACH_JOB", NOTHING)
    assert submitted - shared_time(whole, (), 8).expected_s == 7 * EACH_JOB.expected_s


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
    assert billed_time(
        plan(cells), SET_UP, split=Split.alike("balanced", 2)
    ).cells == pytest.approx(3)


# Set-up


def venv(*packages):
    return VenvSpec(name="mine", packages=packages)


def test_the_set_up_counts_the_venvs_of_the_chosen_adapters_and_no_others():
    def set_up(*adapters, profile="cpu"):
        work = Work(scenarios=("TAB-1",), adapters=adapters)
        return set_up_time(make_plan(load_profile(profile), work))

    numpy, torch, both, everything = (
        set_up(*names) for names in (("numpy",), ("pytorch",), ("numpy", "pytorch"), ("all",))
    )
    assert numpy.high_s < torch.high_s < both.high_s < everything.high_s
    assert numpy.low_s < everything.low_s / 4
    # What JAX and torch are asked with, whether they see the GPU, is installed there too.
    assert set_up("numpy", profile="gpu_a100").expected_s > torch.expected_s


def test_a_package_of_several_venvs_is_on_disk_once():
    assert unpacked_bytes([venv("torch>=2"), venv("torch")]) == unpacked_bytes([venv("torch")])
    assert unpacked_bytes([venv("torch", "numpy")]) > unpacked_bytes([venv("torch")]) > 500 * MB


def test_a_package_that_is_in_no_table_is_small_and_one_for_another_cuda_is_as_large():
    assert unpacked_bytes([venv("a-package-of-mine[all]>=1")]) == SMALL_BYTES
    twelve, thirteen = (unpacked_bytes([venv(f"nvidia-cudnn-cu{cuda}")]) for cuda in (12, 13))
    assert twelve == thirteen > 500 * MB


def test_pins_for_other_systems_are_not_counted():
    tensorflow = VenvSpec(name="tfdata", locked="adapters/tfdata.txt")
    assert unpacked_bytes([tensorflow]) < 3000 * MB  # one of its two builds, by the processor


def test_another_version_of_a_library_takes_about_as_much_as_the_pinned_one():
    pinned = VenvSpec(name="grain", locked="adapters/grain.txt")
    other = VenvSpec(name="grain@0.2.17", similar=pinned.locked, packages=("grain==0.2.17",))
    assert unpacked_bytes([other]) == unpacked_bytes([pinned])


# The profiles that come with skymark

OWN_LOADER = Path(__file__).parents[2] / "execute" / "own_loader.py"


@pytest.mark.parametrize("name", profile_paths())
def test_a_profile_is_expected_to_end_within_its_deadline_and_an_hour(name):
    profile = load_profile(name)
    limits = limits_of(profile, Limits())
    loader = (f"{OWN_LOADER}:make",) if profile.suite == "own_loader" else ()
    plan = make_plan(profile, Work(adapters=loader))
    time = billed_time(plan, set_up_time(plan))
    assert time.fits(limits.deadline_s)
    assert time.whole(limits.deadline_s).expected_s <= 3600
