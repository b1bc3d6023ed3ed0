"""Opaque objects: bytes that no format can compress, as encoded media and archives are."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from skymark.suites.loading.dataset.canonical import Dataset, write_dataset

GENERATOR_SEED = 20_240_615


def write_blobs(directory: Path, elements: int, object_bytes: int) -> Dataset:
    """Write ``payload``, `object_bytes` random bytes per element."""
    random = np.random.Generator(np.random.PCG64(GENERATOR_SEED))
    payload = (random.integers(0, 256, object_bytes, np.uint8) for _ in range(elements))
    return write_dataset(
        directory, "opaque objects", {"payload": payload}, encodings={"payload": "bytes"}
    )
