"""Synthetic vectors of standard normal values."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from skymark.suites.loading.dataset.canonical import Dataset, write_dataset

GENERATOR_SEED = 20_240_610


def write_vectors(directory: Path, elements: int, width: int) -> Dataset:
    """Write one column ``values`` float32 ``[width]``."""
    random = np.random.Generator(np.random.PCG64(GENERATOR_SEED))
    values = random.standard_normal((elements, width), np.float32)
    return write_dataset(directory, "vectors", {"values": values})
