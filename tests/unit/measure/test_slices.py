"""Waits of a pass in slices: the frozen time is no part of them, and cut ones are marked."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skymark.measure.loop import Pass
from skymark.measure.slices import OPEN, Slices

SPANS = ((100, 200), (300, 400), (500, OPEN))


def done_of(*waits: tuple[int, int], end_ns: int = 0) -> Pass:
    """A pass with these waits, each from asking to arrival."""
    asked = [begin for begin, _ in waits]
    wait_ns = [end - begin for begin, end in waits]
    wall_ns = sum(wait_ns) + end_ns
    return Pass(wait_ns=wait_ns, asked_ns=[*asked, waits[-1][1]], wall_ns=wall_ns)


@pytest.mark.parametrize(
    ("asked", "arrived", "live_ns", "is_cut"),
    [
        (110, 150, 40, False),
        (110, 200, 90, False),
        (190, 310, 20, True),
        (190, 450, 110, True),
        (250, 260, 0, True),
        (250, 350, 50, True),
        (390, 600, 110, True),
        (600, 700, 100, True),
        (50, 150, 50, True),
    ],
)
def test_a_wait_lasts_as_long_as_its_process_ran(asked, arrived, live_ns, is_cut):
    live = Slices(SPANS).live_part(done_of((asked, arrived)))
    assert live.wait_ns == [live_ns]
    assert live.is_cut == [is_cut]


def test_the_end_of_an_epoch_counts_in_the_time_in_which_its_process_ran():
    live = Slices(SPANS).live_part(done_of((110, 190), end_ns=130))
    assert live.wall_ns == 80 + 10 + 20
    stopped = replace(done_of((110, 190)), complete=False, asked_ns=[110])
    assert Slices(SPANS).live_part(stopped).wall_ns == 80


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.data())
def test_waits_in_succession_share_out_the_slices(lengths, data):
    gaps = data.draw(st.lists(st.integers(1, 60), min_size=len(lengths), max_size=len(lengths)))
    edges = np.cumsum([x for pair in zip(gaps, lengths, strict=True) for x in pair]).tolist()
    slices = Slices(tuple(zip(edges[::2], edges[1::2], strict=True)))
    moments = sorted(data.draw(st.sets(st.integers(0, edges[-1] + 9), min_size=2)))
    live = slices.live_part(done_of(*pairwise(moments)))
    inside = sum(
        any(begin <= moment < end for begin, end in slices.spans)
        for moment in range(moments[0], moments[-1])
    )
    assert sum(live.wait_ns) == live.wall_ns == inside
