"""Volumes: a random crop of fixed size, and its z-score."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skymark.model.errors import DataError
from skymark.suites.loading.dataset.canonical import Array


def corner_of(
    shares: npt.NDArray[np.float64], shape: tuple[int, ...], edge: int
) -> npt.NDArray[np.int64]:
    """Return the first voxel of a crop along each axis.

    Args:
        shares: of the free space before the crop, in [0, 1), float64 ``[3]`` or ``[n, 3]``.
        shape: of the volume: depth, height, width.
        edge: of the cubic crop, in voxels.
    """
    free = np.asarray(shape, np.int64) - edge + 1
    corner: npt.NDArray[np.int64] = np.floor(shares * free).astype(np.int64)
    return corner


def cube(volume: Array, corner: npt.NDArray[np.int64], edge: int, index: int) -> Array:
    """Cut a cube out of a volume ``[depth, height, width]``.

    Raises:
        DataError: the volume is too small.
    """
    if volume.ndim != 3 or min(volume.shape) < edge:
        raise DataError(
            f"the volume of element {index} has shape {volume.shape}, too small for a crop of "
            f"{edge} voxels a side; choose a smaller variant or larger volumes"
        )
    depth, height, width = corner.tolist()
    return volume[depth : depth + edge, height : height + edge, width : width + edge]


def z_score(volume: Array) -> npt.NDArray[np.float32]:
    """Return ``(volume - mean) / deviation`` of the volume itself, float32.

    A volume of one value throughout becomes zero.
    """
    values = volume.astype(np.float32)
    values -= values.mean(dtype=np.float64).astype(np.float32)
    deviation = np.sqrt(np.mean(np.square(values), dtype=np.float64))
    return values / np.float32(deviation or 1.0)
