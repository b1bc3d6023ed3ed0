"""Crops and z-scores of volumes, on volumes where each voxel says where it was."""

from __future__ import annotations

import numpy as np
import pytest

from skymark.model.errors import DataError
from skymark.suites.loading.transforms.numeric import corner_of, cube, z_score

SHAPE = (10, 12, 14)


def test_corners_cover_all_places_where_the_crop_fits() -> None:
    shares = np.random.default_rng(0).random((20_000, 3))

    corners = corner_of(shares, SHAPE, 8)

    assert corners.min(axis=0).tolist() == [0, 0, 0]
    assert corners.max(axis=0).tolist() == [2, 4, 6]


def test_a_cube_starts_at_its_corner() -> None:
    volume = np.arange(np.prod(SHAPE)).reshape(SHAPE)

    cut = cube(volume, np.array([1, 2, 3]), 4, 0)

    assert cut.shape == (4, 4, 4)
    assert cut[0, 0, 0] == volume[1, 2, 3]
    assert cut[-1, -1, -1] == volume[4, 5, 6]


def test_a_volume_that_is_too_small_is_an_error_that_names_it() -> None:
    with pytest.raises(DataError, match=r"element 6\b.*shape"):
        cube(np.zeros(SHAPE), np.zeros(3, np.int64), 11, 6)


def test_a_z_score_has_zero_mean_and_unit_deviation() -> None:
    volume = np.random.default_rng(0).integers(-1000, 700, SHAPE).astype(np.int16)

    scored = z_score(volume)

    assert scored.dtype == np.float32
    assert abs(scored.mean()) < 1e-6
    assert abs(scored.std() - 1) < 1e-6


def test_a_volume_of_one_value_becomes_zero() -> None:
    assert not z_score(np.full(SHAPE, -1000, np.int16)).any()
