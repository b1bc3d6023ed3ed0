"""Synthetic volumes like computed tomography: bodies of even density in air, with noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from skymark.suites.loading.dataset.canonical import Dataset, write_dataset

GENERATOR_SEED = 20_240_609
AIR, TISSUE, BONE = -1000, 40, 700
"""Hounsfield units."""
NOISE = 25.0
"""Standard deviation in Hounsfield units, as of a standard-dose scan."""
ORGANS = 6


def ellipsoid(
    shape: tuple[int, int, int], centre: npt.NDArray[np.float64], radii: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Return which voxels lie inside an ellipsoid; places and radii are shares of each side."""
    distance = np.zeros((), np.float32)
    for axis, size in enumerate(shape):
        place = (np.arange(size) + 0.5) / size
        squared = ((place - centre[axis]) / radii[axis]) ** 2
        along = [1, 1, 1]
        along[axis] = size
        distance = distance + squared.astype(np.float32).reshape(along)
    inside: npt.NDArray[np.bool_] = distance <= 1
    return inside


def scan(random: np.random.Generator, shape: tuple[int, int, int]) -> npt.NDArray[np.int16]:
    """Make one volume in Hounsfield units: a body with organs of several densities."""
    density = np.full(shape, AIR, np.float32)
    body = random.uniform(0.35, 0.45, 3)
    density[ellipsoid(shape, np.full(3, 0.5), body)] = TISSUE
    for _ in range(ORGANS):
        centre = 0.5 + random.uniform(-0.5, 0.5, 3) * body
        radii = random.uniform(0.05, 0.2, 3)
        density[ellipsoid(shape, centre, radii)] = random.uniform(TISSUE - 100, BONE)
    density += NOISE * random.standard_normal(shape, np.float32)
    return density.astype(np.int16)


def write_volumes(
    directory: Path, elements: int, shape: tuple[int, int, int], classes: int
) -> Dataset:
    """Write columns ``volume`` int16 ``[depth, height, width]`` and ``label`` int64."""
    random = np.random.Generator(np.random.PCG64(GENERATOR_SEED))
    volumes = np.empty((elements, *shape), np.int16)
    for index in range(elements):
        volumes[index] = scan(random, shape)
    label = random.integers(classes, size=elements)
    return write_dataset(directory, "synthetic scans", {"volume": volumes, "label": label})
