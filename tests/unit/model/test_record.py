"""Records: which ends are bad, and how wide an interval is."""

from __future__ import annotations

import pytest

from skymark.model.record import Estimate, Status


def test_only_what_ran_and_went_wrong_is_bad():
    assert {status for status in Status if status.is_bad} == {
        Status.INVALID,
        Status.FAILED,
        Status.TIMEOUT,
    }


def test_the_half_width_is_relative_and_missing_without_an_interval():
    assert Estimate(value=100, low=90, high=120).relative_half_width == pytest.approx(0.15)
    assert Estimate(value=-100, low=-110, high=-90).relative_half_width == pytest.approx(0.1)
    assert Estimate(value=100).relative_half_width is None
    assert Estimate(value=0, low=-1, high=1).relative_half_width is None
