"""Random resized crop: its definition, and that table and single image agree."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from skymark.suites.loading.random import uniforms
from skymark.suites.loading.transforms.crops import (
    DRAWS,
    TRIES,
    central_box,
    crops_from,
    pixel_box,
    pixel_boxes,
)

Table = dict[str, npt.NDArray[np.float64]]


def crops_of(count: int) -> Table:
    return crops_from(uniforms(3, 1, np.arange(count), DRAWS))


def row(crops: Table, index: int) -> Table:
    return {name: column[index] for name, column in crops.items()}


def never_fitting() -> Table:
    """Ten tries of the whole area at a ratio that only a wide image could hold."""
    tries = {"area": np.ones((1, TRIES)), "aspect": np.full((1, TRIES), 4 / 3)}
    return {**tries, "corner": np.zeros((1, 2))}


def test_the_table_gives_each_image_the_box_it_gets_alone() -> None:
    crops = crops_of(4000)
    sizes = np.random.default_rng(0).integers(1, 700, (4000, 2)).astype(np.int32)

    boxes = pixel_boxes(crops, sizes[:, 0], sizes[:, 1])

    for index, (height, width) in enumerate(sizes.tolist()):
        assert tuple(boxes[index].tolist()) == pixel_box(row(crops, index), height, width)


@pytest.mark.parametrize(("height", "width"), [(480, 640), (1, 1), (3, 900), (900, 3), (7, 8)])
def test_every_box_lies_inside_an_image_of_any_ratio(height: int, width: int) -> None:
    crops = crops_of(500)

    top, left, box_height, box_width = pixel_boxes(
        crops, np.full(500, height, np.int32), np.full(500, width, np.int32)
    ).T

    assert min(top.min(), left.min()) >= 0
    assert min(box_height.min(), box_width.min()) >= 1
    assert (top + box_height).max() <= height
    assert (left + box_width).max() <= width


def test_areas_and_ratios_follow_the_definition() -> None:
    size = np.full(20_000, 4000, np.int32)

    boxes = pixel_boxes(crops_of(20_000), size, size).astype(np.float64)
    area, ratio = boxes[:, 2] * boxes[:, 3] / 4000**2, boxes[:, 3] / boxes[:, 2]

    assert 0.079 < area.min() < 0.09
    assert 0.95 < area.max() <= 1.0
    assert 0.749 < ratio.min() < 0.76
    assert 1.32 < ratio.max() < 1.334
    # Uniform on a logarithmic scale: as often wide as tall. Five deviations.
    assert abs(np.mean(ratio > 1) - 0.5) < 5 * np.sqrt(0.25 / 20_000)


def test_corners_are_spread_over_the_whole_free_space() -> None:
    crops = crops_of(20_000)
    size = np.full(20_000, 300, np.int32)

    top, _, height, _ = pixel_boxes(crops, size, size).T
    free = 300 - height
    share = top[free > 50] / free[free > 50]

    assert share.min() == 0
    assert share.max() == 1
    assert abs(share.mean() - 0.5) < 0.01


@pytest.mark.parametrize(
    ("height", "width", "box"),
    [
        (100, 300, (0, 83, 100, 133)),  # too wide: 4/3 of the height
        (300, 75, (100, 0, 100, 75)),  # too narrow: 3/4 of the height
        (90, 100, (0, 0, 90, 100)),  # allowed: all of it
    ],
)
def test_the_largest_allowed_central_box_serves_where_no_try_fits(
    height: int, width: int, box: tuple[int, int, int, int]
) -> None:
    crops = never_fitting()
    if width > height:
        crops["aspect"] = np.full((1, TRIES), 3 / 4)

    assert central_box(height, width) == box
    assert pixel_box(row(crops, 0), height, width) == box
    sides = np.array([height], np.int32), np.array([width], np.int32)
    assert tuple(pixel_boxes(crops, *sides)[0].tolist()) == box
