"""Times that are not known exactly."""

from __future__ import annotations

from skymark.model.duration import NOTHING, Span

ROUND = Span(low_s=1, expected_s=2, high_s=8)


def test_spans_are_added_repeated_and_cut_off_at_each_of_their_ends():
    assert ROUND.plus(ROUND) == ROUND.times(2) == Span(low_s=2, expected_s=4, high_s=16)
    assert ROUND.at_most(4) == Span(low_s=1, expected_s=2, high_s=4)
    assert ROUND.at_most(0.5) == Span(low_s=0.5, expected_s=0.5, high_s=0.5)


def test_nothing_takes_no_time():
    assert ROUND.plus(NOTHING) == ROUND
    assert ROUND.times(0) == NOTHING
