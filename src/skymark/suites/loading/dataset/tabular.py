"""Synthetic tables: dense features, clicks, vectors, opaque objects, and rows that are computed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from math import prod
from pathlib import Path

import numpy as np
import numpy.typing as npt

from skymark.suites.loading.dataset.canonical import (
    Array,
    Column,
    Dataset,
    Element,
    write_dataset,
)
from skymark.suites.loading.transforms.numeric import feature_keys, mix

GENERATOR_SEED = 20_240_607

CLICK_COUNTS = 13
"""Integer features of a row of Criteo's click logs."""
CARDINALITIES = (
    *(1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194),
    *(27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572),
)
"""Distinct values of the 26 categorical features in the Criteo Kaggle logs, from the script with
which DLRM's reference implementation trains on them (``--arch-embedding-size``)."""
CLICK_RATE = 0.256
"""Share of clicks in the Criteo Kaggle logs."""
MISSING_SHARE = 0.1
MISSING = -1
"""Stands for an empty field, in counts and in ids."""


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


def write_imported(
    directory: Path, features: npt.NDArray[np.float64], label: npt.NDArray[np.int64]
) -> Dataset:
    """Write real features in units of their own, in which `feature_moments` are their moments.

    Standardising by these then gives each feature mean 0 and deviation 1 (0 where it is constant).

    Args:
        directory: where to.
        features: float64 ``[n, F]``.
        label: int64 ``[n]``.
    """
    found = features.std(axis=0)
    standard = (features - features.mean(axis=0)) / np.where(found, found, 1)
    mean, deviation = feature_moments(features.shape[1])
    values = (standard * deviation + mean).astype(np.float32)
    return write_dataset(directory, "imported table", {"features": values, "label": label})


def table_sizes(largest: int) -> npt.NDArray[np.uint64]:
    """Return the rows of each categorical feature's table, at most `largest`, uint64 ``[26]``."""
    return np.minimum(CARDINALITIES, largest).astype(np.uint64)


def write_clicks(directory: Path, elements: int) -> Dataset:
    """Write rows like Criteo's click logs.

    Counts are log-normal. A category's rank is log-uniform over the feature's cardinality, which
    is Zipf's law, and its id is a 32-bit hash of the rank, as in the logs. A tenth of the fields
    is missing.

    Returns:
        Columns ``dense`` int32 ``[13]``, ``categorical`` int64 ``[26]`` (both `MISSING` where
        empty) and ``label`` int64.
    """
    random = np.random.Generator(np.random.PCG64(GENERATOR_SEED))
    dense = np.exp(random.normal(1.5, 1.8, (elements, CLICK_COUNTS))).astype(np.int32)
    ranks = np.power(np.array(CARDINALITIES, np.float64), random.random((elements, 26)))
    keys = feature_keys(len(CARDINALITIES)) + np.uint64(GENERATOR_SEED)
    categorical = (mix(ranks.astype(np.uint64) + keys) >> np.uint64(32)).astype(np.int64)
    for values in (dense, categorical):
        values[random.random(values.shape) < MISSING_SHARE] = MISSING
    label = (random.random(elements) < CLICK_RATE).astype(np.int64)
    return write_dataset(
        directory,
        "click logs",
        {"dense": dense, "categorical": categorical, "label": label},
    )


VECTOR_SEED = 20_240_610


def write_vectors(directory: Path, elements: int, width: int) -> Dataset:
    """Write one column ``values`` float32 ``[width]``."""
    random = np.random.Generator(np.random.PCG64(VECTOR_SEED))
    values = random.standard_normal((elements, width), np.float32)
    return write_dataset(directory, "vectors", {"values": values})


OBJECT_SEED = 20_240_615


def write_blobs(directory: Path, elements: int, object_bytes: int) -> Dataset:
    """Write ``payload``, `object_bytes` random bytes per element, which no format can compress."""
    random = np.random.Generator(np.random.PCG64(OBJECT_SEED))
    payload = (random.integers(0, 256, object_bytes, np.uint8) for _ in range(elements))
    return write_dataset(
        directory, "opaque objects", {"payload": payload}, encodings={"payload": "bytes"}
    )


MANTISSA = 24
"""Bits of a float32 of which every one is random."""


class ComputedDataset(Dataset):
    """A canonical dataset whose columns are hashes of index, column and place in it."""

    def _open(self, column: Column) -> None:
        """Open nothing: no column is stored."""

    @property
    def _widths(self) -> list[tuple[str, int]]:
        return [(column.name, prod(column.shape or ())) for column in self.columns]

    def __getitem__(self, index: int) -> Element:
        row = self.rows(np.array([index], np.int64))
        return {"index": index, **{name: values[0] for name, values in row.items()}}

    def rows(self, indices: Array) -> dict[str, Array]:
        """Return the columns of some elements, each float32 ``[n, width]``, uniform in [0, 1).

        Args:
            indices: int64 ``[n]``.
        """
        keys = mix(indices.astype(np.uint64))[:, None]
        found: dict[str, Array] = {}
        for number, (column, width) in enumerate(self._widths):
            places = np.arange(width, dtype=np.uint64) + np.uint64(number << 32)
            bits = mix(keys + places) >> np.uint64(64 - MANTISSA)
            found[column] = bits.astype(np.float32) / np.float32(1 << MANTISSA)
        return found


def write_computed(
    directory: Path, name: str, elements: int, widths: Mapping[str, int]
) -> ComputedDataset:
    """Write what a computed dataset is, and open it.

    Args:
        directory: made if absent.
        name: what the data is, for people.
        elements: how many there are.
        widths: the numbers that an element has in each column.
    """
    directory.mkdir(parents=True, exist_ok=True)
    columns = [asdict(Column(column, "<f4", (width,))) for column, width in widths.items()]
    meta = {"name": name, "length": elements, "columns": columns}
    (directory / "meta.json").write_text(json.dumps(meta, indent=1))
    return ComputedDataset(directory)
