"""Windows and frames that begin at a drawn place."""

from __future__ import annotations

import numpy as np
import pytest

from skymark.suites.loading.transforms.crops import window_start
from skymark.suites.loading.transforms.video import WRONG_SAMPLERS, sampled_frames

ALMOST_ONE = np.nextafter(1, 0)


def test_a_window_begins_anywhere_and_ends_within() -> None:
    starts = [window_start(share, 10, 4) for share in np.linspace(0, ALMOST_ONE, 7_000)]
    assert [starts.count(place) for place in range(7)] == [1_000] * 7
    assert len(starts) == 7_000


@pytest.mark.parametrize("whole", [0, 3, 4])
def test_a_window_as_long_as_all_begins_at_the_beginning(whole: int) -> None:
    assert window_start(ALMOST_ONE, whole, 4) == 0


def test_frames_lie_a_stride_apart_and_reach_the_last_at_most() -> None:
    assert list(sampled_frames(0.0, 20, 4, 3)) == [0, 3, 6, 9]
    assert list(sampled_frames(ALMOST_ONE, 20, 4, 3)) == [10, 13, 16, 19]


@pytest.mark.parametrize("name", WRONG_SAMPLERS)
def test_a_wrong_sample_has_other_frames_of_the_clip(name: str) -> None:
    right = list(sampled_frames(0.8, 20, 4, 3))
    wrong = list(WRONG_SAMPLERS[name](0.8, 20, 4, 3))
    assert wrong != right
    assert len(wrong) == len(right)
    assert 0 <= min(wrong) <= max(wrong) < 20
