"""Batches are as large as the memory given takes."""

from __future__ import annotations

import pytest

from skymark.suites.clip.encoding.batches import (
    FRACTION_VARIABLE,
    given_fraction,
    largest_batch,
)


@pytest.mark.parametrize(
    ("free", "per_image", "expected"),
    [(1000, 1, 512), (1000, 2, 256), (1000, 1.9, 512), (1000, 600, 1), (0, 1, 1)],
)
def test_the_largest_power_of_two_that_fits_is_taken(free, per_image, expected):
    assert largest_batch(free, per_image, 512) == expected


def test_a_worker_without_a_share_has_the_whole_accelerator(monkeypatch):
    monkeypatch.delenv(FRACTION_VARIABLE, raising=False)
    assert given_fraction() == 1.0
    monkeypatch.setenv(FRACTION_VARIABLE, "0.125")
    assert given_fraction() == 0.125
