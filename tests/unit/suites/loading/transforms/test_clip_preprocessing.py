"""CLIP's preprocessing: sizes, places and figures."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from skymark.suites.loading.transforms.images import (
    CLIP,
    CLIP_DEVIATION,
    CLIP_MEAN,
    crop_centre,
    normalised,
    resize_shortest,
)


@pytest.mark.parametrize(
    ("size", "resized"),
    [((200, 100), (448, 224)), ((100, 201), (224, 450)), ((50, 50), (224, 224))],
)
def test_the_shortest_side_becomes_the_wanted_one(size, resized):
    assert resize_shortest(Image.new("RGB", size), 224).size == resized


def test_the_crop_is_central():
    pixels = np.zeros((4, 9, 3), np.uint8)
    pixels[:, 2:6] = 255  # round((9 - 4) / 2) is 2, to even
    assert np.asarray(crop_centre(Image.fromarray(pixels), 4)).min() == 255


def test_pixels_are_normalised_by_channel():
    value = normalised(Image.new("RGB", (1, 1), (255, 0, 51)), CLIP)
    expected = (np.array([1, 0, 0.2]) - CLIP_MEAN) / CLIP_DEVIATION
    assert value.dtype == np.float32
    assert np.allclose(value[0, 0], expected, atol=1e-5)
