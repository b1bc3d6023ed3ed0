"""What a list has to say, and for how long, until machines count as gone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skymark.cloud.lifecycle.ending import Disappearance

RUNS, ENDS, NOTHING = {"a": True}, {"a": False}, {}


def after(*looks, ids=("a",)):
    proof = Disappearance(ids, quiet_s=40, dropped_s=4)
    for now_s, listed in looks:
        proof.look(listed, now_s, now_s)
    return proof


@pytest.mark.parametrize(
    "looks",
    [
        [],
        [(0, NOTHING)],
        [(0, NOTHING), (39, NOTHING), (39.5, NOTHING)],
        [(0, NOTHING), (50, NOTHING)],
        [(0, ENDS), (1, NOTHING), (2, NOTHING), (3, NOTHING)],
        [(0, ENDS), (20, ENDS), (39, ENDS)],
        [(0, ENDS), (1, RUNS), (2, NOTHING), (10, NOTHING), (20, NOTHING)],
        [(n, NOTHING) for n in range(30)] + [(30, RUNS)],
    ],
    ids=str,
)
def test_a_list_that_is_silent_for_too_short_proves_nothing(looks):
    assert not after(*looks).proved


@pytest.mark.parametrize(
    "looks",
    [
        [(0, NOTHING), (20, NOTHING), (40, NOTHING)],
        [(0, RUNS), (1, ENDS), (2, NOTHING), (4, NOTHING), (6, NOTHING)],
        [(0, ENDS), (20, ENDS), (40, ENDS)],
    ],
    ids=str,
)
def test_machines_that_ended_by_the_list_are_gone(looks):
    assert after(*looks).proved


@pytest.mark.parametrize(
    ("looks", "proved"),
    [
        ([(0, 9), (20, 21), (41, 60)], False),
        ([(0, 1), (20, 21), (40, 60)], False),
        ([(0, 1), (20, 21), (41, 60)], True),
    ],
)
def test_a_late_answer_does_not_lengthen_the_time_without_machines(looks, proved):
    proof = Disappearance(("a",), quiet_s=40, dropped_s=4)
    for asked_s, answered_s in looks:
        proof.look(NOTHING, asked_s, answered_s)
    assert proof.proved is proved


def test_of_two_machines_both_have_to_end():
    both = ({"a": False, "b": False}, 0), ({}, 2), ({}, 4), ({}, 6)
    one = ({"a": False}, 0), ({}, 2), ({}, 4), ({}, 6)
    assert after(*((now, listed) for listed, now in both), ids=("a", "b")).proved
    assert not after(*((now, listed) for listed, now in one), ids=("a", "b")).proved


@given(
    st.lists(
        st.tuples(
            st.floats(min_value=0.01, max_value=30),
            st.dictionaries(st.sampled_from("ab"), st.booleans()),
        )
    )
)
def test_a_machine_that_ran_lately_is_never_gone(looks):
    proof, now_s, ran_s = Disappearance(("a",), quiet_s=40, dropped_s=4), 0.0, 0.0
    for passed_s, listed in looks:
        now_s += passed_s
        proof.look(listed, now_s, now_s)
        ran_s = now_s if any(listed.values()) else ran_s
        assert not proof.proved or now_s - ran_s >= 4
