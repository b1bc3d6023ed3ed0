"""Work on numbers and bytes: tables of recommendation models, volumes, chains, checksums."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from skymark.model.errors import DataError

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array, Element
    from skymark.suites.loading.work import Parameters

MIXERS = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
"""Multipliers of MurmurHash3's 64-bit finaliser (Austin Appleby, public domain)."""
INCREMENT = 0x9E3779B97F4A7C15
"""Weyl increment of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
generators", OOPSLA 2014), which gives every feature a hash of its own."""
_SHIFT = np.uint64(33)


def log_counts(counts: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return ``log(1 + max(x, 0))`` as DLRM takes it of Criteo's counts (missing is negative).

    Naumov et al., "Deep learning recommendation model for personalization and recommendation
    systems" (2019), in the preprocessing of its reference implementation.

    Args:
        counts: integers of any shape.

    Returns:
        float32 of the same shape.
    """
    logs: npt.NDArray[np.float32] = np.log1p(np.maximum(counts, 0).astype(np.float32))
    return logs


def mix(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Apply MurmurHash3's 64-bit finaliser, a bijection of 64-bit words, to each key."""
    mixed = keys ^ (keys >> _SHIFT)
    mixed *= MIXERS[0]
    mixed ^= mixed >> _SHIFT
    mixed *= MIXERS[1]
    mixed ^= mixed >> _SHIFT
    return mixed


def feature_keys(features: int) -> npt.NDArray[np.uint64]:
    """Return the key added to the ids of each feature before mixing, uint64 ``[features]``."""
    return np.arange(features, dtype=np.uint64) * np.uint64(INCREMENT)


def hashed(
    ids: npt.NDArray[np.int64], keys: npt.NDArray[np.uint64], tables: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int32]:
    """Hash categorical ids to rows of embedding tables: ``mix(id + key) mod table size``.

    Args:
        ids: int64 ``[F]``, any value; negative ones are taken modulo 2**64.
        keys: uint64 ``[F]``, see `feature_keys`.
        tables: uint64 ``[F]``, rows of each feature's table, each below 2**31.

    Returns:
        int32 ``[F]``, 0 ≤ row < table size.
    """
    return (mix(ids.view(np.uint64) + keys) % tables).astype(np.int32)


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


Vector = npt.NDArray[Any]
"""float32; float64 where the oracle computes in double precision."""

GAIN = np.float32(1.5)
THRESHOLD = np.float32(0.8)
PLACES = 3
BEND = np.float32(0.3)
LEVEL = 2.0


def scale(values: Vector) -> Vector:
    """Return ``1.5 x``."""
    return values * GAIN


def fold(values: Vector) -> Vector:
    """Return ``|x| - 0.8``."""
    return np.abs(values) - THRESHOLD


def rotate(values: Vector) -> Vector:
    """Move every value three places to the front, the first three to the end."""
    return np.concatenate((values[PLACES:], values[:PLACES]))


def bend(values: Vector) -> Vector:
    """Return ``x + 0.3 sin x``."""
    bow: Vector = np.sin(values)
    return values + bow * BEND


def level(values: Vector) -> Vector:
    """Scale to a root mean square of 2; a vector of zeros stays unchanged."""
    power = float(values @ values) / len(values)
    return values * values.dtype.type(LEVEL / np.sqrt(power)) if power else values


LINKS: Mapping[str, Callable[[Vector], Vector]] = {
    "scale": scale,
    "fold": fold,
    "rotate": rotate,
    "bend": bend,
    "level": level,
}
"""The operations of a chain, repeated in this order. They keep values bounded and hardly contract
or expand, so that a chain of any length still reveals a missing link."""


def checksum(element: Element, parameters: Parameters) -> Element:
    """Add ``checksum``, the CRC-32 of ``payload`` as int64, as storage clients do."""
    del parameters
    payload = np.asarray(element["payload"]).tobytes()
    return {**element, "checksum": np.int64(zlib.crc32(payload))}
