"""Synthetic tables: dense features as regression data has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from skymark.loading.dataset.canonical import Dataset, write_dataset

GENERATOR_SEED = 20_240_607


def feature_moments(features: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return the mean and the standard deviation of each dense feature, float32 ``[F]``."""
    places = np.arange(features, dtype=np.float32)
    deviation = 0.5 + places / features * 4
    return np.sin(places) * 10, deviation.astype(np.float32)


def write_dense(directory: Path, elements: int, features: int) -> Dataset:
    """Write ``features`` float32 ``[F]`` and ``label`` int64 (0 or 1) of a noisy linear rule."""
    random = np.random.Generator(np.random.PCG64(GENERATOR_SEED))
    mean, deviation = feature_moments(features)
    standard = random.standard_normal((elements, features), np.float32)
    weights = random.standard_normal(features, np.float32)
    noise = random.standard_normal(elements, np.float32)
    label = (standard @ weights + noise > 0).astype(np.int64)
    values = standard * deviation + mean
    return write_dataset(directory, "dense table", {"features": values, "label": label})
