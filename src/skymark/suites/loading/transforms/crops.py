"""Crops at random: boxes of images, windows of sounds and clips.

The definition is Inception's (Szegedy et al., "Going deeper with convolutions", CVPR 2015, section
6), as in torchvision's ``RandomResizedCrop``. It makes up to ten tries of an area between 8 % and
100 % of the image and an aspect ratio between 3/4 and 4/3. If none fits, it takes the largest
central box with a permitted aspect ratio.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

TRIES = 10
AREA = (0.08, 1.0)
ASPECT = (3 / 4, 4 / 3)
"""Smallest and largest width / height, drawn uniformly on a logarithmic scale."""
DRAWS = 2 * TRIES + 2
"""Uniform numbers that one crop takes."""

Boxes = npt.NDArray[np.int32]
"""int32 ``[n, 4]``: top, left, height, width in pixels."""


def crops_from(numbers: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[np.float64]]:
    """Turn uniform numbers into areas, aspects and corners of crops, whatever the image's size.

    Args:
        numbers: uniform in [0, 1), float64 ``[n, DRAWS]``.

    Returns:
        ``area`` (share of the image) and ``aspect`` (width / height) of each try, float64
        ``[n, 10]``, and ``corner`` (share of the free space above and left of the box), float64
        ``[n, 2]``.
    """
    low, high = math.log(ASPECT[0]), math.log(ASPECT[1])
    return {
        "area": AREA[0] + numbers[:, :TRIES] * (AREA[1] - AREA[0]),
        "aspect": np.exp(low + numbers[:, TRIES : 2 * TRIES] * (high - low)),
        "corner": numbers[:, 2 * TRIES : DRAWS],
    }


def pixel_boxes(
    crops: Mapping[str, npt.NDArray[np.float64]],
    heights: npt.NDArray[np.int32],
    widths: npt.NDArray[np.int32],
) -> Boxes:
    """Return the box of each image in pixels: `pixel_box` for whole columns.

    Args:
        crops: result of `crops_from` for these n elements.
        heights: heights of the decoded images, ``[n]``.
        widths: widths of the decoded images, ``[n]``.
    """
    height, width = heights.astype(np.float64), widths.astype(np.float64)
    area = crops["area"] * (height * width)[:, None]
    tried_width = np.rint(np.sqrt(area * crops["aspect"]))
    tried_height = np.rint(np.sqrt(area / crops["aspect"]))
    fits = (
        (tried_width > 0)
        & (tried_width <= width[:, None])
        & (tried_height > 0)
        & (tried_height <= height[:, None])
    )
    first, rows = fits.argmax(axis=1), np.arange(len(height))
    found = fits.any(axis=1)
    narrow, wide = width / height < ASPECT[0], width / height > ASPECT[1]
    whole_height = np.where(narrow, np.rint(width / ASPECT[0]), height)
    whole_width = np.where(wide, np.rint(height * ASPECT[1]), width)
    box_height = np.where(found, tried_height[rows, first], whole_height)
    box_width = np.where(found, tried_width[rows, first], whole_width)
    corner = crops["corner"]
    free_height, free_width = height - box_height, width - box_width
    top = np.floor(np.where(found, corner[:, 0] * (free_height + 1), free_height / 2))
    left = np.floor(np.where(found, corner[:, 1] * (free_width + 1), free_width / 2))
    return np.stack([top, left, box_height, box_width], axis=1).astype(np.int32)


def pixel_box(
    crop: Mapping[str, npt.NDArray[np.float64]], height: int, width: int
) -> tuple[int, int, int, int]:
    """Return the box (top, left, height, width) of one image in pixels.

    Args:
        crop: one element's row of the result of `crops_from`.
        height: height of the decoded image.
        width: width of the decoded image.
    """
    top_share, left_share = crop["corner"].tolist()
    pixels = float(height * width)
    for area, aspect in zip(crop["area"].tolist(), crop["aspect"].tolist(), strict=True):
        box_width = round(math.sqrt(area * pixels * aspect))
        box_height = round(math.sqrt(area * pixels / aspect))
        if 0 < box_width <= width and 0 < box_height <= height:
            top = math.floor(top_share * (height - box_height + 1))
            left = math.floor(left_share * (width - box_width + 1))
            return top, left, box_height, box_width
    return central_box(height, width)


def central_box(height: int, width: int) -> tuple[int, int, int, int]:
    """Return the largest central box of an image with a permitted aspect ratio."""
    box_height, box_width = height, width
    if width / height < ASPECT[0]:
        box_height = round(width / ASPECT[0])
    elif width / height > ASPECT[1]:
        box_width = round(height * ASPECT[1])
    return (height - box_height) // 2, (width - box_width) // 2, box_height, box_width


def window_start(share: float, whole: int, window: int) -> int:
    """Return the start of a window; a uniform share in [0, 1) makes all starts equally likely.

    Args:
        share: of the places where it may begin.
        whole: samples or frames that there are.
        window: samples or frames that it spans; 0 is returned where there are fewer.
    """
    return max(0, int(share * (whole - window + 1)))
