"""Slot workers fill the cards with few jobs, and large models get what they need first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skymark.execute.slots import Cards, gpus_here, job_per_group, slot_jobs, working_cards
from skymark.model.errors import UsageError

GIB = 2**30
EIGHT = Cards(kind="H100", count=8, bytes_each=80 * GIB)


def groups(count, need=None):
    return {f"model-{number}": need for number in range(count)}


@pytest.mark.parametrize(
    ("fraction", "count", "slots", "jobs"),
    [(0.125, 100, 64, 8), (0.25, 100, 32, 8), (0.125, 10, 10, 2), (0.3, 100, 24, 8), (1, 3, 3, 3)],
)
def test_cards_are_filled_by_a_job_each_and_no_worker_is_idle(fraction, count, slots, jobs):
    found = slot_jobs(groups(count), EIGHT, fraction)
    assert sum(job.slots for job in found) == slots
    assert len(found) == jobs
    assert all(job.groups == () for job in found)
    assert all(job.cards == pytest.approx(job.slots * fraction) for job in found)


@pytest.mark.parametrize("count", [1, 3, 8, 9, 40, 64, 500])
def test_without_a_fraction_every_card_works_where_there_are_groups_enough(count):
    found = slot_jobs(groups(count), EIGHT)
    slots = [job.slots for job in found]
    assert working_cards(found, EIGHT) == len(found) == min(8, count)
    assert sum(slots) == min(64, count)
    assert max(slots) - min(slots) <= 1
    assert all(job.cards == 1 and job.fraction == 1 / job.slots for job in found)
    alone = job_per_group(groups(count), EIGHT)
    assert working_cards(alone, EIGHT) >= min(8, count) / 2


def test_a_fraction_that_is_given_fills_one_card_after_another():
    assert working_cards(slot_jobs(groups(40), EIGHT, 0.125), EIGHT) == 5
    assert working_cards(slot_jobs(groups(3), EIGHT, 0.125), EIGHT) == 1


def test_what_needs_more_memory_gets_a_larger_part_first():
    needs = {"small": 4 * GIB, "huge": 70 * GIB, "large": 15 * GIB, "tiny": None}
    found = slot_jobs(needs, EIGHT, 0.125)
    assert [(job.fraction, job.groups) for job in found] == [
        (1, ("huge",)),
        (0.25, ("large",)),
        (0.125, ("small", "tiny")),
    ]
    alone = job_per_group(needs, EIGHT, 0.125)
    assert [(job.fraction, job.groups) for job in alone][:2] == [(1, ("huge",)), (0.25, ("large",))]
    assert len(alone) == 4


def test_what_fits_on_no_card_is_refused_with_its_name():
    with pytest.raises(UsageError, match=r"^huge .*\b96\.6\b.*\bH100\b.*\b85\.9 GB"):
        slot_jobs({"huge": 90 * GIB}, EIGHT, 0.125)
    for fraction in (0, -1, 1.5, float("nan")):
        with pytest.raises(UsageError, match=f"--gpu-fraction {fraction:g} "):
            slot_jobs(groups(1), EIGHT, fraction)


def test_a_machine_without_cards_has_as_many_workers_as_were_asked_for():
    assert [job.slots for job in slot_jobs(groups(5), None, 0.125)] == [1]
    assert len(slot_jobs(groups(5), None, 0.125, slots=3)) == 3
    assert len(slot_jobs(groups(2), None, 0.125, slots=3)) == 2


@given(
    needs=st.dictionaries(
        st.text(min_size=1), st.none() | st.integers(0, 80 * GIB), min_size=1, max_size=40
    ),
    count=st.integers(1, 8),
    fraction=st.none() | st.floats(0.01, 1),
    limit=st.none() | st.integers(1, 100),
)
def test_every_group_has_a_worker_and_no_job_takes_more_than_a_card(needs, count, fraction, limit):
    cards = Cards(kind="H100", count=count, bytes_each=80 * GIB)
    jobs = slot_jobs(needs, cards, fraction, limit)
    taken = {name for job in jobs for name in job.groups or needs}
    assert taken == set(needs)
    for job in jobs:
        assert 0 < job.cards <= 1
        assert job.fraction * job.slots <= 1 + 1e-6
        for name in job.groups:
            assert (needs[name] or 0) <= job.fraction * 80 * GIB


@pytest.mark.parametrize(
    ("value", "names"),
    [("2,5", ("2", "5")), (" GPU-1 , GPU-2", ("GPU-1", "GPU-2")), ("", None), ("-1", None)],
)
def test_without_nvml_the_variable_names_the_gpus(monkeypatch, value, names):
    """NVML is stood in for: this machine may have it."""
    monkeypatch.setattr("skymark.execute.slots.visible_units", lambda variables: [])
    found = gpus_here({"CUDA_VISIBLE_DEVICES": value})
    assert (None if found is None else found.names) == names
    assert found is None or (found.cards.count, found.cards.bytes_each) == (len(names), None)
