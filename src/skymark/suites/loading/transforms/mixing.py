"""MixUp and CutMix: every image of a batch is mixed with the next one of the batch.

MixUp blends two images (Zhang, Cisse, Dauphin and Lopez-Paz, "mixup: beyond empirical risk
minimization", ICLR 2018); CutMix pastes a box of one into the other (Yun et al., "CutMix:
regularization strategy to train strong classifiers with localizable features", ICCV 2019). Both mix
the labels in the same shares. The share is drawn from Beta(1, 1), which is uniform: CutMix's own
choice, and MixUp's for CIFAR.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from skymark.model.errors import DataError
from skymark.suites.loading.dataset.canonical import Array

DRAWS = 4
"""Uniform numbers that one element takes."""


def mixing_from(numbers: npt.NDArray[np.float64], side: int) -> dict[str, Array]:
    """Turn uniform numbers into kinds, shares and boxes of mixing, for square images.

    Args:
        numbers: uniform in [0, 1), float64 ``[n, DRAWS]``.
        side: of the images, in pixels.

    Returns:
        ``cut`` bool ``[n]``: CutMix rather than MixUp; ``share`` float32 ``[n]``: what is left of
        the element itself; ``box`` int32 ``[n, 4]``: top, left, height and width of what CutMix
        pastes, all zero for MixUp. Boxes are those of CutMix's algorithm 1: their centre is uniform
        and they end at the image's border, which `share` accounts for.
    """
    cut = numbers[:, 0] < 0.5
    share = numbers[:, 1]
    half = (side * np.sqrt(1 - share)).astype(np.int64) // 2
    centre = (numbers[:, 2:4] * side).astype(np.int64)
    begin = np.clip(centre - half[:, None], 0, side)
    end = np.clip(centre + half[:, None], 0, side)
    box = np.where(cut[:, None], np.hstack([begin, end - begin]), 0).astype(np.int32)
    left = 1 - box[:, 2] * box[:, 3] / side**2
    return {"cut": cut, "share": np.where(cut, left, share).astype(np.float32), "box": box}


def mixed_images(images: Array, mixing: Mapping[str, Array]) -> Array:
    """Mix every image with the next of the batch, the last with the first.

    Args:
        images: float32 ``[B, side, side, 3]``.
        mixing: what `mixing_from` made for these elements, in the batch's order.
    """
    partners = np.roll(images, -1, axis=0)
    share = mixing["share"].reshape(-1, 1, 1, 1)
    blended: Array = share * images + (1 - share) * partners
    for place in np.flatnonzero(mixing["cut"]).tolist():
        top, left, height, width = mixing["box"][place].tolist()
        pasted = (place, slice(top, top + height), slice(left, left + width))
        blended[place] = images[place]
        blended[pasted] = partners[pasted]
    return blended


def mixed_labels(labels: Array, shares: Array, classes: int) -> Array:
    """Mix every label with the next of the batch: int ``[B]`` to float32 ``[B, classes]``.

    Raises:
        DataError: a label is no class.
    """
    if labels.size and not 0 <= labels.min() <= labels.max() < classes:
        raise DataError(
            f"labels {labels.min()} to {labels.max()} do not fit {classes} classes; choose data "
            "with fewer classes, or a larger variant"
        )
    certain = np.eye(classes, dtype=np.float32)[labels]
    share = shares.reshape(-1, 1)
    soft: Array = share * certain + (1 - share) * np.roll(certain, -1, axis=0)
    return soft
